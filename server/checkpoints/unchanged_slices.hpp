#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/types.hpp"
#include "proto/checkpoint.pb.h"
#include "proto/formats/checkpoint_reader.hpp"
#include "server/replication/slice_image.hpp"

namespace taut::server {

/// The slices of a capture to which no update was applied since the job's previous checkpoint.
/// Their files also become part of the new checkpoint, as hard links, so that each folder stays
/// complete when others are removed: the file system counts the references, and removes the bytes
/// with the last one.
class UnchangedSlices {
 public:
  /// Links the base's files into the order's folder. A file of which less than half is needed is
  /// not linked: its slices are written again, so that the files of a checkpoint take at most twice
  /// its bytes. Without a base that can be read, only slices of frozen tables count as unchanged.
  /// REQUIRES: the folder exists.
  [[nodiscard]] static UnchangedSlices link(const ShardCapture& capture);

  /// The linked file that has a slice; nullptr if the slice must be written.
  [[nodiscard]] const std::string* file_of(const SliceImage& image) const;
  /// Whether a slice has not changed, and is likely not to until the next checkpoint.
  [[nodiscard]] bool contains(const SliceImage& image) const;
  /// The files that were linked.
  [[nodiscard]] const std::vector<pb::CheckpointFile>& files() const { return files_; }
  /// Why there are none; empty if there is no reason.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  using Place = std::pair<TableId, std::uint64_t>;
  static Place place_of(const SliceImage& image) { return {image.place.table, image.place.offset}; }

  /// A file of the base, and those of its slices that have not changed.
  struct Use {
    const pb::CheckpointFile* file = nullptr;
    std::uint64_t bytes = 0;  // of these slices
    std::vector<Place> slices;
  };
  /// The base's files that have unchanged slices of a capture, by name; notes these slices.
  [[nodiscard]] std::map<std::string, Use> compare(const ShardCapture& capture,
                                                   const CheckpointReader& base);
  /// Links a file of the base into the order's folder, if possible.
  void link_file(const ShardCapture& capture, const CheckpointReader& base, const Use& use);

  std::map<Place, std::string> unchanged_;  // with the file that was linked; empty if none was
  std::vector<pb::CheckpointFile> files_;
  std::string problem_;
};

}  // namespace taut::server
