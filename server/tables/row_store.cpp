#include "server/tables/row_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "common/check.hpp"
#include "common/math/update_kernels.hpp"
#include "common/ssp/row_buckets.hpp"

namespace taut::server {
namespace {

// Floats of a chunk, and of the rows that are applied together: sized to fit a processor's caches.
constexpr std::size_t kChunkFloats = 1UL << 16U;
constexpr std::size_t kBlockFloats = 1UL << 12U;
constexpr std::uint32_t kMaxShift = 10;
constexpr std::size_t kFirstIndex = 64;
// Bytes that a row takes in addition to its floats: number and clock, links and index, and the
// latter twice while they grow.
constexpr std::uint64_t kRowBytes = 64;

std::uint32_t chunk_shift(std::size_t row_floats) {
  const std::size_t places =
      std::max<std::size_t>(1, kChunkFloats / std::max<std::size_t>(1, row_floats));
  return std::min(kMaxShift, static_cast<std::uint32_t>(std::bit_width(places) - 1));
}

std::uint64_t number_at(const std::byte* numbers, std::size_t index) {
  std::uint64_t number = 0;
  std::memcpy(&number, numbers + index * sizeof(number), sizeof(number));
  return number;
}

}  // namespace

/// The rows of several updates, each row once, in ascending order.
class RowStore::Sources {
 public:
  Sources(std::span<const Weighed> updates, std::size_t width) : width_(width) {
    for (const Weighed& one : updates) {
      const std::byte* numbers = one.update->gradient.bytes().data();
      if (one.update->rows == 0) continue;
      sources_.push_back({numbers, numbers + one.update->rows * sizeof(std::uint64_t),
                          one.update->rows, 0, one.scale, number_at(numbers, 0)});
    }
  }

  /// The lowest number that is left; kEnd if none is.
  [[nodiscard]] std::uint64_t next() const {
    std::uint64_t lowest = kEnd;
    for (const Source& source : sources_) lowest = std::min(lowest, source.number);
    return lowest;
  }
  /// Writes the sum of a row's gradients, in the updates' order, and advances past the row.
  void take(std::uint64_t number, float* sum) {
    bool is_first = true;
    for (Source& source : sources_) {
      if (source.number != number) continue;
      const std::byte* from = source.values + source.at * width_ * sizeof(float);
      for (std::size_t i = 0; i < width_; ++i) {
        float value = 0;
        std::memcpy(&value, from + i * sizeof(float), sizeof(float));
        sum[i] = is_first ? source.scale * value : sum[i] + source.scale * value;
      }
      is_first = false;
      source.advance();
    }
  }
  /// Advances past a row in every update that names it.
  void skip(std::uint64_t number) {
    for (Source& source : sources_) {
      if (source.number == number) source.advance();
    }
  }
  /// How many rows are left, each counted as often as it is named.
  [[nodiscard]] std::uint64_t named() const {
    std::uint64_t rows = 0;
    for (const Source& source : sources_) rows += source.rows - source.at;
    return rows;
  }

  static constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();

 private:
  struct Source {
    const std::byte* numbers;
    const std::byte* values;
    std::size_t rows;
    std::size_t at;
    float scale;
    std::uint64_t number;  // at `at`

    void advance() {
      ++at;
      number = at < rows ? number_at(numbers, at) : kEnd;
    }
  };
  const std::size_t width_;
  std::vector<Source> sources_;
};

std::uint64_t RowImage::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& chunk : chunks) {
    bytes += chunk->floats.size() * sizeof(float) +
             chunk->numbers.size() * (sizeof(std::uint64_t) + sizeof(std::int64_t));
  }
  return bytes;
}

RowStore::RowStore(const TableSpec& table, std::uint64_t seed, std::size_t states)
    : width_(table.width()),
      states_(states),
      shift_(chunk_shift((1 + states) * width_)),
      seed_(seed),
      name_(table.name),
      filler_(table.filler),
      max_rows_(max_rows_of_bucket(table)),
      idle_clocks_(table.rows->idle_clocks) {}

std::uint64_t RowStore::max_rows_of_bucket(const TableSpec& table) {
  const std::uint64_t buckets = table.rows->buckets;
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  return (std::min(table.rows->max_rows, all) + buckets - 1) / buckets;
}

std::uint64_t RowStore::max_bytes(const TableSpec& table, std::uint64_t buckets,
                                  std::size_t states) {
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  const std::uint64_t limit = max_rows_of_bucket(table);
  const std::uint64_t even = (all + table.rows->buckets - 1) / table.rows->buckets;
  const std::uint64_t rows = limit == 0 ? even : std::min(all, limit);
  const std::uint64_t floats = (1 + states) * table.width();
  const std::uint64_t chunk = floats << chunk_shift(floats);
  return buckets * (rows * (floats * sizeof(float) + kRowBytes) + chunk * sizeof(float));
}

std::size_t RowStore::places_of_chunk(std::size_t row_floats) {
  return std::size_t{1} << chunk_shift(row_floats);
}

void RowStore::fill(std::uint64_t number, std::span<float> out) const {
  if (filler_.kind == math::Filler::Kind::kConstant) {
    std::ranges::fill(out, filler_.a);
  } else {
    math::fill(filler_, seed_, name_, number * width_, out);
  }
}

void RowStore::apply(math::RuleKind kind, const math::UpdateStep& step,
                     std::span<const Weighed> updates, float scale, Clock clock) {
  clock_ = clock = std::max(clock, clock_);
  const std::size_t block = std::max<std::size_t>(1, kBlockFloats / width_);
  Sources sources(updates, width_);
  make_room(sources);
  std::uint64_t number = sources.next();
  while (number != Sources::kEnd) {
    block_.clear();
    gradients_.resize(block * width_);
    for (; number != Sources::kEnd && block_.size() < block; number = sources.next()) {
      sources.take(number, gradients_.data() + block_.size() * width_);
      block_.push_back(number);
    }
    apply_block(kind, step, scale, clock);
  }
  drop_old(clock);
}

/// Drops the rows that an application would leave beyond max_rows before it creates its rows, and
/// skips those that it would itself drop: whatever the updates name, no more than max_rows rows
/// take memory.
void RowStore::make_room(Sources& sources) {
  if (max_rows_ == 0 || rows_ + sources.named() <= max_rows_) return;
  std::uint64_t named = 0;
  for (Sources ahead = sources; ahead.next() != Sources::kEnd; ahead.skip(ahead.next())) ++named;
  for (; named > max_rows_; --named) {
    const std::uint64_t number = sources.next();
    sources.skip(number);
    const std::uint32_t place = find(number);
    if (place == kNone) {
      ++dropped_;
    } else {
      drop(place);
    }
  }
  // The other rows that it names become the newest.
  std::uint64_t added = 0;
  for (Sources ahead = sources; ahead.next() != Sources::kEnd; ahead.skip(ahead.next())) {
    const std::uint32_t place = find(ahead.next());
    if (place == kNone) {
      ++added;
      continue;
    }
    unlink(place);
    append(place);
  }
  while (rows_ + added > max_rows_ && oldest_ != kNone) drop(oldest_);
}

/// Applies the rule to the rows of block_ by gradients_.
void RowStore::apply_block(math::RuleKind kind, const math::UpdateStep& step, float scale,
                           Clock clock) {
  const std::size_t floats = block_.size() * width_;
  places_.clear();
  for (const std::uint64_t number : block_) {
    const std::uint32_t found = find(number);
    places_.push_back(found == kNone ? make(number) : found);
  }
  values_.resize(floats);
  kept_.resize(floats * states_);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const float* row = chunk_of(places_[i]).floats.data() + floats_at(places_[i]);
    std::copy_n(row, width_, values_.data() + i * width_);
    for (std::size_t state = 0; state < states_; ++state) {
      std::copy_n(row + (1 + state) * width_, width_, kept_.data() + state * floats + i * width_);
    }
  }
  std::array<float*, 8> states{};
  TAUT_CHECK(states_ <= states.size(), "a rule keeps few numbers with a value");
  for (std::size_t state = 0; state < states_; ++state) {
    states[state] = kept_.data() + state * floats;
  }
  const math::GradientView gradient{
      reinterpret_cast<const std::byte*>(gradients_.data()), 1, {}, floats};
  const std::span<float> values(values_.data(), floats);
  math::apply_update(kind, step, {&gradient, 1}, scale, values, values, {states.data(), states_});
  for (std::size_t i = 0; i < places_.size(); ++i) {
    RowChunk& chunk = writable(places_[i]);
    float* row = chunk.floats.data() + floats_at(places_[i]);
    std::copy_n(values_.data() + i * width_, width_, row);
    for (std::size_t state = 0; state < states_; ++state) {
      std::copy_n(kept_.data() + state * floats + i * width_, width_, row + (1 + state) * width_);
    }
    chunk.updated[within(places_[i])] = clock.value();
    ++changes_;
    unlink(places_[i]);
    append(places_[i]);
  }
}

void RowStore::read(std::span<const std::byte> numbers, std::span<float> out) const {
  const std::size_t rows = numbers.size() / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint64_t number = number_at(numbers.data(), i);
    const std::span<float> row = out.subspan(i * width_, width_);
    const std::uint32_t place = find(number);
    if (place == kNone) {
      fill(number, row);
    } else {
      std::copy_n(chunk_of(place).floats.data() + floats_at(place), width_, row.data());
    }
  }
}

void RowStore::start_from(const RowImage& image) {
  TAUT_CHECK(rows_ == 0 && image.states == states_, "a bucket starts from an image once");
  changes_ = image.changes;
  const std::uint32_t places = 1U << shift_;
  std::vector<std::uint32_t> rows;
  rows.reserve(image.rows);
  links_.resize(image.chunks.size() << shift_);
  free_.reserve(places);
  for (const auto& chunk : image.chunks) {
    TAUT_CHECK(chunk->numbers.size() == places && chunk->updated.size() == places &&
                   chunk->floats.size() == places * (1 + states_) * width_,
               "an image's chunk has other places than a store's");
    const auto first = static_cast<std::uint32_t>(chunks_.size() << shift_);
    chunks_.push_back(std::const_pointer_cast<RowChunk>(chunk));
    for (std::uint32_t i = 0; i < places; ++i) {
      (chunk->updated[i] == RowChunk::kFree ? free_ : rows).push_back(first + i);
    }
  }
  // Ordered by their last updates, as far as an image shows it: within one clock, by number.
  std::ranges::sort(rows, {}, [this](std::uint32_t place) {
    return std::pair(chunk_of(place).updated[within(place)], number_of(place));
  });
  for (const std::uint32_t place : rows) {
    if ((rows_ + 1) * 10 > index_.size() * 7) grow_index();
    put_into_index(place);
    append(place);
    ++rows_;
  }
  if (!rows.empty()) clock_ = Clock(chunk_of(rows.back()).updated[within(rows.back())]);
  // It may have been saved with a higher limit.
  while (max_rows_ > 0 && rows_ > max_rows_) drop(oldest_);
}

ListedRow RowStore::listed(std::uint32_t place) const {
  const RowChunk& chunk = chunk_of(place);
  return {chunk.updated[within(place)], chunk.numbers[within(place)],
          chunk.floats.data() + floats_at(place)};
}

RowChanges RowStore::take_changes(bool whole) {
  RowChanges changes;
  changes.is_whole = whole || !notes_changes_;
  // The rows that were updated since then are the newest.
  for (std::uint32_t place = newest_; place != kNone; place = links_[place].older) {
    if (!changes.is_whole && links_[place].mark != mark_) break;
    changes.rows.push_back(listed(place));
  }
  std::ranges::sort(changes.rows, {}, &ListedRow::number);
  if (!changes.is_whole) {
    std::ranges::sort(dropped_numbers_);
    const auto twice = std::ranges::unique(dropped_numbers_);
    dropped_numbers_.erase(twice.begin(), twice.end());
    std::ranges::copy_if(dropped_numbers_, std::back_inserter(changes.dropped),
                         [this](std::uint64_t number) { return find(number) == kNone; });
  }
  dropped_numbers_.clear();
  notes_changes_ = true;
  ++mark_;
  return changes;
}

std::span<float> RowStore::put(std::uint64_t number, Clock updated) {
  const std::uint32_t found = find(number);
  const std::uint32_t place = found == kNone ? add(number) : found;
  RowChunk& chunk = writable(place);
  chunk.updated[within(place)] = updated.value();
  ++changes_;
  return std::span(chunk.floats).subspan(floats_at(place), (1 + states_) * width_);
}

void RowStore::remove(std::uint64_t number) {
  const std::uint32_t place = find(number);
  if (place != kNone) drop(place);
}

std::uint32_t RowStore::find(std::uint64_t number) const {
  if (index_.empty()) return kNone;
  const std::size_t mask = index_.size() - 1;
  for (std::size_t at = mixed(number) & mask;; at = (at + 1) & mask) {
    const std::uint32_t place = index_[at];
    if (place == kNone || number_of(place) == number) return place;
  }
}

/// Adds a row with its initial values, as the newest. Throws std::bad_alloc and then changes
/// nothing.
std::uint32_t RowStore::make(std::uint64_t number) {
  const std::uint32_t place = add(number);
  const std::span<float> floats =
      std::span(writable(place).floats).subspan(floats_at(place), (1 + states_) * width_);
  fill(number, floats.first(width_));
  std::ranges::fill(floats.subspan(width_), 0.0F);
  return place;
}

/// Adds a row with unspecified values.
std::uint32_t RowStore::add(std::uint64_t number) {
  if ((rows_ + 1) * 10 > index_.size() * 7) grow_index();
  const std::uint32_t place = free_place();
  RowChunk& chunk = writable(place);
  free_.pop_back();
  chunk.numbers[within(place)] = number;
  chunk.updated[within(place)] = 0;
  put_into_index(place);
  append(place);
  ++rows_;
  return place;
}

/// Returns a free place, which stays the last of free_.
std::uint32_t RowStore::free_place() {
  if (free_.empty()) {
    const std::uint32_t places = 1U << shift_;
    const std::uint64_t first = std::uint64_t{chunks_.size()} << shift_;
    TAUT_CHECK(first + places < kNone, "a bucket has as many rows as places have numbers");
    auto chunk = std::make_shared<RowChunk>();
    chunk->numbers.resize(places);
    chunk->updated.resize(places, RowChunk::kFree);
    chunk->floats.resize(std::size_t{places} * (1 + states_) * width_);
    free_.reserve(places);
    links_.resize(first + places);
    chunks_.push_back(std::move(chunk));
    for (std::uint32_t i = places; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(first) + i);
  }
  return free_.back();
}

void RowStore::drop(std::uint32_t place) {
  RowChunk& chunk = writable(place);
  ++changes_;
  note_dropped(number_of(place));
  free_.push_back(place);
  take_from_index(place);
  unlink(place);
  chunk.updated[within(place)] = RowChunk::kFree;
  --rows_;
  ++dropped_;
}

/// Notes the number of a dropped row for the next take_changes(). If a list of all rows would be
/// shorter, that is used instead.
void RowStore::note_dropped(std::uint64_t number) {
  constexpr std::size_t kAlways = 4096;
  if (!notes_changes_) return;
  dropped_numbers_.push_back(number);
  if (dropped_numbers_.size() <= rows_ + kAlways) return;
  dropped_numbers_ = {};
  notes_changes_ = false;
}

void RowStore::drop_old(Clock clock) {
  const auto is_idle = [&] {
    if (idle_clocks_ == 0) return false;
    const std::int64_t updated = chunk_of(oldest_).updated[within(oldest_)];
    return clock.value() - updated >= idle_clocks_;
  };
  while (oldest_ != kNone && is_idle()) drop(oldest_);
}

void RowStore::unlink(std::uint32_t place) {
  const Links links = links_[place];
  (links.older == kNone ? oldest_ : links_[links.older].newer) = links.newer;
  (links.newer == kNone ? newest_ : links_[links.newer].older) = links.older;
}

/// Links a row as the newest.
void RowStore::append(std::uint32_t place) {
  links_[place] = {newest_, kNone, mark_};
  (newest_ == kNone ? oldest_ : links_[newest_].newer) = place;
  newest_ = place;
}

void RowStore::put_into_index(std::uint32_t place) {
  const std::size_t mask = index_.size() - 1;
  std::size_t at = mixed(number_of(place)) & mask;
  while (index_[at] != kNone) at = (at + 1) & mask;
  index_[at] = place;
}

/// Entries behind it that it had displaced move up: no search may meet a gap before its target.
/// Source    Knuth, "The Art of Computer Programming", volume 3, section 6.4, algorithm R
void RowStore::take_from_index(std::uint32_t place) {
  const std::size_t mask = index_.size() - 1;
  std::size_t gap = mixed(number_of(place)) & mask;
  while (index_[gap] != place) gap = (gap + 1) & mask;
  for (std::size_t at = (gap + 1) & mask; index_[at] != kNone; at = (at + 1) & mask) {
    const std::size_t home = mixed(number_of(index_[at])) & mask;
    if (((at - home) & mask) < ((at - gap) & mask)) continue;
    index_[gap] = index_[at];
    gap = at;
  }
  index_[gap] = kNone;
}

void RowStore::grow_index() {
  std::vector<std::uint32_t> before(std::max(kFirstIndex, 2 * index_.size()), kNone);
  index_.swap(before);
  for (const std::uint32_t place : before) {
    if (place != kNone) put_into_index(place);
  }
}

/// A place's chunk to write to: if an image shares it, a copy replaces it.
RowChunk& RowStore::writable(std::uint32_t place) {
  std::shared_ptr<RowChunk>& chunk = chunks_[place >> shift_];
  if (chunk.use_count() > 1) chunk = std::make_shared<RowChunk>(*chunk);
  // The last other owner's accesses to the memory happen before ours.
  std::atomic_thread_fence(std::memory_order_acquire);
  return *chunk;
}

}  // namespace taut::server
