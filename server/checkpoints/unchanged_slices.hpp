#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/types.hpp"
#include "proto/checkpoint.pb.h"
#include "server/replication/slice_image.hpp"

namespace taut::server {

/// What a capture has in common with the job's checkpoint before it: slices to which no update was
/// applied in between. The files with them become the new checkpoint's too, as hard links, so that
/// each folder stays whole whatever becomes of the others: the file system counts the references,
/// and removes the bytes with the last one.
class UnchangedSlices {
 public:
  /// Links the base's files into the order's folder. A file of which less than half is needed is
  /// not linked: its slices are to be written again, so that the files of a checkpoint take at most
  /// twice its bytes. Where nothing can be linked, nothing is unchanged.
  /// REQUIRES: the folder exists.
  [[nodiscard]] static UnchangedSlices link(const ShardCapture& capture);

  /// The file that has a slice; nullptr: it is to be written.
  [[nodiscard]] const std::string* file_of(const SliceImage& image) const;
  /// Whether a slice that is to be written is likely not to change until the next checkpoint.
  [[nodiscard]] bool rests(const SliceImage& image) const;
  /// The files that were linked.
  [[nodiscard]] const std::vector<pb::CheckpointFile>& files() const { return files_; }
  /// Why there are none; empty: there is no reason.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  using Place = std::pair<TableId, std::uint64_t>;
  static Place place_of(const SliceImage& image) { return {image.place.table, image.place.offset}; }

  std::map<Place, std::string> resting_;  // by its file
  std::vector<pb::CheckpointFile> files_;
  std::string problem_;
};

}  // namespace taut::server
