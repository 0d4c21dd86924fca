#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/result.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/ssp/table.hpp"
#include "proto/data_message.hpp"
#include "server/job_view.hpp"
#include "server/replication/row_copy.hpp"
#include "server/replication/slice_image.hpp"
#include "server/tables/table_memory.hpp"

namespace taut::server {

/// A backup's side of replication: the newest image of each slice of one shard, from one primary,
/// and the updates since then in a job that logs them.
/// Thread    shard thread
class SliceImageStore {
 public:
  /// place  of the shard, with this host as its backup
  explicit SliceImageStore(ShardPlace place) : place_(std::move(place)) {}

  /// Takes a primary's images over. Returns what is kept now, for the primary; nothing: they are of
  /// another term or choice, or cannot be kept.
  /// memory  nullptr: no limit
  [[nodiscard]] std::optional<pb::SliceImagesReply> take(
      const DataImages& images, const JobView& view, std::uint64_t slice_elements,
      const std::shared_ptr<TableMemory>& memory);

  /// Why images cannot be kept; empty: they can.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// There is an image of every slice.
  [[nodiscard]] bool is_complete() const { return !tables_.empty() && images_.size() == slices_; }
  [[nodiscard]] const ShardPlace& place() const { return place_; }
  [[nodiscard]] const std::vector<TableSpec>& tables() const { return tables_; }
  /// What the images take is counted as the slices' from now on.
  void give_memory_back() { memory_ = {}; }
  /// The images for slices that are taken over, by SliceLayout::index_of. Throws std::bad_alloc.
  [[nodiscard]] std::map<std::size_t, SliceImage> slices(BufferPool& values,
                                                         BufferPool& states) const;

 private:
  [[nodiscard]] Result<void> open(const std::vector<pb::TableSpec>& tables, const JobView& view,
                                  std::uint64_t slice_elements,
                                  const std::shared_ptr<TableMemory>& memory);
  static void note_kept(const ImageItem& image, std::uint64_t sequence,
                        pb::SliceImagesReply& reply);
  void keep_rows(const ImageItem& image, const Slice& place, std::size_t states,
                 pb::SliceImagesReply& reply);
  [[nodiscard]] bool is_sound(const LoggedUpdate& one, const Slice& place,
                              const JobView& view) const;
  void keep_logged(const LoggedUpdate& one, const JobView& view, pb::SliceImagesReply& reply);
  void forget_logged(std::size_t index, const ImageItem& image);

  const ShardPlace place_;
  std::vector<TableSpec> tables_;
  SliceLayout layout_;
  std::size_t slices_ = 0;  // of this shard
  TableMemory::Share memory_;
  std::map<std::size_t, ImageItem> images_;
  std::map<std::size_t, RowCopy> copies_;  // of buckets, with the rows of their images
  // Of each slice, what the newest image does not hold, by number.
  std::map<std::size_t, std::map<std::uint64_t, LoggedUpdate>> logged_;
  std::string problem_;
};

}  // namespace taut::server
