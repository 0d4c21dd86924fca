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

/// The backup's side of replication: the newest image of each slice of one shard, and the updates
/// since then in a job that logs them. An image from an earlier primary, or from an earlier set of
/// backups, is kept until the next one arrives: until then nothing newer is reported to workers as
/// safe.
/// Thread    shard thread
class SliceImageStore {
 public:
  /// place   the shard's
  /// choice  the number of this host's choice as its backup
  SliceImageStore(const ShardPlace& place, std::uint64_t choice)
      : shard_(place.shard), choice_(choice), term_(place.term), copy_(place.copy) {}

  /// Adopts a changed place: the shard's primary or its other backups may be different ones.
  void follow(const ShardPlace& place);

  /// Stores a primary's images. Returns the reply with what is kept now; nullopt if they are of
  /// another term or copy number, or cannot be kept.
  /// memory  nullptr: no limit
  [[nodiscard]] std::optional<pb::SliceImagesReply> take(
      const DataImages& images, const JobView& view, std::uint64_t slice_elements,
      const std::shared_ptr<TableMemory>& memory);

  /// Why images cannot be kept; empty if they can.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Whether there is an image of every slice.
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] std::uint64_t choice() const { return choice_; }
  /// The term of the primary whose images are accepted.
  [[nodiscard]] std::uint64_t term() const { return term_; }
  [[nodiscard]] bool expects(const DataImages& images) const {
    return images.term == term_ && images.copy == copy_;
  }
  [[nodiscard]] const std::vector<TableSpec>& tables() const { return tables_; }
  /// Passes on the images' share of the memory limit, which belongs to the slices from now on.
  [[nodiscard]] TableMemory::Share take_memory() { return std::move(memory_); }
  /// Removes and returns the image of a slice that is taken over, so that a take-over does not need
  /// memory for all slices twice. Throws std::bad_alloc.
  /// REQUIRES: is_complete() before the first call; the slice is one of this shard's, each taken
  /// once.
  [[nodiscard]] SliceImage take_slice(const Slice& place, BufferPool& values, BufferPool& states);

 private:
  /// What is kept of one slice.
  struct Kept {
    bool has_image = false;
    ImageItem image;
    std::optional<RowCopy> rows;  // of a bucket's image
    // Updates that the image does not contain, by number.
    std::map<std::uint64_t, LoggedUpdate> logged;
  };

  [[nodiscard]] Result<void> open(const std::vector<pb::TableSpec>& tables, const JobView& view,
                                  std::uint64_t slice_elements,
                                  const std::shared_ptr<TableMemory>& memory);
  static void note_kept(const ImageItem& image, std::uint64_t sequence,
                        pb::SliceImagesReply& reply);
  void keep_rows(const ImageItem& image, const Slice& place, std::size_t states,
                 pb::SliceImagesReply& reply);
  void set_image(std::size_t index, const ImageItem& image);
  [[nodiscard]] bool is_sound(const LoggedUpdate& one, const Slice& place,
                              const JobView& view) const;
  [[nodiscard]] bool has_room(const LoggedUpdate& one, const Kept& kept) const;
  void count_logged(const LoggedUpdate& one, bool is_kept);
  void count_logged(const Kept& kept, bool is_kept);
  void keep_logged(const LoggedUpdate& one, const JobView& view, pb::SliceImagesReply& reply);
  [[nodiscard]] Kept* find_image(std::size_t index);
  [[nodiscard]] std::vector<LoggedUpdate> logged_of(std::size_t index) const;

  const ShardId shard_;
  const std::uint64_t choice_;
  std::uint64_t term_;
  std::uint64_t copy_;
  std::vector<TableSpec> tables_;
  SliceLayout layout_;
  std::size_t slices_ = 0;  // of this shard
  TableMemory::Share memory_;
  // For tables by rows: the bytes reserved for updates, and the bytes of those that are logged.
  std::map<TableId, std::uint64_t> log_limits_;
  std::map<TableId, std::uint64_t> logged_bytes_;
  std::map<std::size_t, Kept> newest_;  // by SliceLayout::index_of
  std::map<std::size_t, Kept> former_;  // images from before, where newest_ has none
  std::string problem_;
};

}  // namespace taut::server
