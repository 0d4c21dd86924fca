#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/math/filler.hpp"
#include "common/math/update_rule.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "proto/pushed_update.hpp"

namespace taut::server {

/// Places for rows of a bucket, in one piece of memory.
struct RowChunk {
  static constexpr std::int64_t kFree = -1;  // there is no row at the place

  std::vector<std::uint64_t> numbers;  // [places]
  std::vector<std::int64_t> updated;   // [places] the job's clock at the last update; kFree
  std::vector<float> floats;           // [places, 1 + states, width]: values, then each state
};

/// The rows of a bucket at one moment. The store shares the memory and does not write to it until
/// the image is destroyed.
struct RowImage {
  std::uint64_t rows = 0;
  std::size_t states = 0;                  // state values that the rule keeps with each value
  std::uint64_t changes = 0;               // as RowStore::changes()
  std::shared_ptr<const void> lease = {};  // destroyed with the image, after its memory
  std::vector<std::shared_ptr<const RowChunk>> chunks = {};

  /// The most bytes that a store copies because the image exists.
  [[nodiscard]] std::uint64_t bytes() const;
};

/// A row in a store's or an image's memory.
struct ListedRow {
  std::int64_t updated;  // the job's clock at its last update
  std::uint64_t number;  // within the table
  const float* floats;   // [1 + states, width]
};

/// The changes of a bucket's rows, for a copy of them.
struct RowChanges {
  bool is_whole = false;               // `rows` are all rows of the bucket
  std::vector<ListedRow> rows;         // updated rows, by number; valid until the next apply()
  std::vector<std::uint64_t> dropped;  // numbers, ascending; the copy may lack some of them
};

/// One bucket of a table that is kept by rows: values and the rule's states of the rows that were
/// updated. Any other row has the values that the filler derives from its number, so reading stores
/// nothing.
///
/// Rows are dropped at the end of an application: those that were not updated for idle_clocks
/// clocks of the job and, if the bucket has more than its part of max_rows, those whose last update
/// is oldest; among the rows of one application, those with the lowest numbers. Which rows are
/// dropped depends on the updates and their order alone.
/// Thread    shard thread
class RowStore {
 public:
  /// seed  of the job
  RowStore(const TableSpec& table, std::uint64_t seed, std::size_t states);

  /// The most rows that one bucket keeps, its equal part of max_rows; 0: no limit.
  [[nodiscard]] static std::uint64_t max_rows_of_bucket(const TableSpec& table);
  /// The most memory that a table's buckets take, in bytes: for all rows, or for max_rows.
  /// buckets  how many of the table's buckets
  [[nodiscard]] static std::uint64_t max_bytes(const TableSpec& table, std::uint64_t buckets,
                                               std::size_t states);

  /// How many places a chunk has whose rows have `row_floats` floats, including states.
  [[nodiscard]] static std::size_t places_of_chunk(std::size_t row_floats);

  /// One update of an application, and the scale of its gradient.
  struct Weighed {
    const Update* update = nullptr;  // by rows
    float scale = 1;
  };
  /// Applies the rule to each row that an update names, to the sum over the updates that name it,
  /// in their order, times `scale`. Rows that none names, and their states, are unchanged.
  /// clock  the job's, which all members have pushed; never goes back: a lower one counts as the
  ///        previous one
  /// Throws std::bad_alloc; each row is then either unchanged or updated.
  void apply(math::RuleKind kind, const math::UpdateStep& step, std::span<const Weighed> updates,
             float scale, Clock clock);

  /// Writes rows' values, [rows, width], in the order of their numbers.
  /// numbers  [rows] 8 bytes each, at any alignment
  void read(std::span<const std::byte> numbers, std::span<float> out) const;

  [[nodiscard]] RowImage image() const {
    return {rows_, states_, changes_, {}, {chunks_.begin(), chunks_.end()}};
  }
  /// Continues from an image, whose memory it shares. REQUIRES: the store is empty; the image has
  /// as many states, and places_of_chunk() in each chunk.
  void start_from(const RowImage& image);

  /// The changes since the last call; all rows on the first call, or if too many were dropped.
  /// whole  all rows in any case
  [[nodiscard]] RowChanges take_changes(bool whole);
  /// Adds a row of another store, or replaces the row with its number. Returns the memory for its
  /// floats, [1 + states, width]. Throws std::bad_alloc and then changes nothing.
  [[nodiscard]] std::span<float> put(std::uint64_t number, Clock updated);
  /// Drops the row with this number, if it exists.
  void remove(std::uint64_t number);

  /// The exact number of rows that are kept.
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  /// How many rows were dropped so far.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  /// How many rows were written or dropped, by this store and those that it continues: while this
  /// number is unchanged, so are the rows.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t states() const { return states_; }

 private:
  static constexpr std::uint32_t kNone = ~0U;

  /// A row's neighbours in the order of their last updates.
  struct Links {
    std::uint32_t older = kNone;
    std::uint32_t newer = kNone;
    std::uint32_t mark = 0;  // mark_ when it was updated
  };
  class Sources;

  void make_room(Sources& sources);
  void apply_block(math::RuleKind kind, const math::UpdateStep& step, float scale, Clock clock);
  [[nodiscard]] std::uint32_t find(std::uint64_t number) const;
  [[nodiscard]] std::uint32_t make(std::uint64_t number);
  [[nodiscard]] std::uint32_t add(std::uint64_t number);
  [[nodiscard]] ListedRow listed(std::uint32_t place) const;
  void drop(std::uint32_t place);
  void drop_old(Clock clock);
  void note_dropped(std::uint64_t number);
  void unlink(std::uint32_t place);
  void append(std::uint32_t place);
  void put_into_index(std::uint32_t place);
  void take_from_index(std::uint32_t place);
  void grow_index();
  [[nodiscard]] std::uint32_t free_place();
  [[nodiscard]] const RowChunk& chunk_of(std::uint32_t place) const {
    return *chunks_[place >> shift_];
  }
  [[nodiscard]] RowChunk& writable(std::uint32_t place);
  [[nodiscard]] std::uint32_t within(std::uint32_t place) const {
    return place & ((1U << shift_) - 1);
  }
  [[nodiscard]] std::uint64_t number_of(std::uint32_t place) const {
    return chunk_of(place).numbers[within(place)];
  }
  [[nodiscard]] std::size_t floats_at(std::uint32_t place) const {
    return within(place) * (1 + states_) * width_;
  }
  void fill(std::uint64_t number, std::span<float> out) const;

  const std::size_t width_;
  const std::size_t states_;
  const std::uint32_t shift_;  // a chunk has 1 << shift_ places
  const std::uint64_t seed_;
  const std::string name_;
  const math::Filler filler_;
  const std::uint64_t max_rows_;
  const std::int64_t idle_clocks_;
  std::vector<std::shared_ptr<RowChunk>> chunks_;
  std::vector<Links> links_;          // by place
  std::vector<std::uint32_t> free_;   // places
  std::vector<std::uint32_t> index_;  // places, open addressing by the number's hash; kNone: free
  std::uint32_t oldest_ = kNone;
  std::uint32_t newest_ = kNone;
  std::uint64_t rows_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t changes_ = 0;
  Clock clock_;  // the newest that was applied
  bool notes_changes_ = false;
  std::uint32_t mark_ = 0;                      // rises with each take_changes()
  std::vector<std::uint64_t> dropped_numbers_;  // since the last take_changes()
  // For the rows that are applied together: [rows, width] each.
  std::vector<std::uint64_t> block_;
  std::vector<std::uint32_t> places_;
  std::vector<float> gradients_;
  std::vector<float> values_;
  std::vector<float> kept_;  // [states, rows, width]
};

}  // namespace taut::server
