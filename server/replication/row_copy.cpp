#include "server/replication/row_copy.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "common/ssp/row_buckets.hpp"
#include "server/replication/image_parts.hpp"

namespace taut::server {
namespace {

constexpr std::size_t kNumber = sizeof(std::uint64_t);
constexpr std::uint64_t kMaxPartsBytes = 4 * kMaxBucketBytes;

/// The keys of a part's rows.
class Keys {
 public:
  explicit Keys(const ImageItem& part) : bytes_(part.keys.bytes()) {}
  [[nodiscard]] std::size_t count() const { return bytes_.size() / (2 * kNumber); }
  [[nodiscard]] std::uint64_t number(std::size_t i) const { return at<std::uint64_t>(i); }
  [[nodiscard]] std::int64_t clock(std::size_t i) const { return at<std::int64_t>(count() + i); }
  [[nodiscard]] std::uint64_t lowest() const { return count() == 0 ? 0 : number(0); }

 private:
  template <class Number>
  [[nodiscard]] Number at(std::size_t i) const {
    Number number{};
    std::memcpy(&number, bytes_.data() + i * kNumber, kNumber);
    return number;
  }
  std::span<const std::byte> bytes_;
};

bool is_same_image(const ImageItem& a, const ImageItem& b) {
  return a.sequence == b.sequence && a.rows == b.rows && a.dropped == b.dropped &&
         a.base == b.base && a.version == b.version && a.applications == b.applications &&
         a.done == b.done;
}

}  // namespace

/// The most rows that the bucket keeps.
std::uint64_t RowCopy::max_rows() const {
  const std::uint64_t limit = RowStore::max_rows_of_bucket(table_);
  return limit == 0 ? static_cast<std::uint64_t>(table_.shape[0]) : limit;
}

/// Whether a part may be of this bucket. Its numbers ascend: the decoder has checked that.
bool RowCopy::is_sound(const ImageItem& part) const {
  const auto all = static_cast<std::uint64_t>(table_.shape[0]);
  if (part.rows > max_rows() || part.dropped > all || part.states.size() != states_) return false;
  // A whole image has nothing to drop from.
  if (part.base == 0 && part.dropped > 0) return false;
  const Keys keys(part);
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < keys.count(); ++i) {
    const std::uint64_t number = keys.number(i);
    if (number >= all || bucket_of(number, table_.rows->buckets) != bucket_) return false;
    if (keys.clock(i) == ImageItem::kDropped) continue;
    const Clock updated(keys.clock(i));
    if (updated < Clock() || updated >= Clock::never()) return false;
    ++rows;
  }
  const std::uint64_t bytes = rows * table_.width() * sizeof(float);
  return part.values.size() == bytes && std::ranges::all_of(part.states, [&](const Frame& state) {
           return state.size() == bytes;
         });
}

/// Whether all parts have arrived and no row occurs twice.
bool RowCopy::is_whole() const {
  std::uint64_t rows = 0;
  std::uint64_t dropped = 0;
  std::uint64_t end = 0;  // of the numbers so far
  for (const auto& [lowest, part] : parts_) {
    const Keys keys(part);
    if (keys.count() == 0) continue;
    if (lowest < end) return false;
    end = keys.number(keys.count() - 1) + 1;
    for (std::size_t i = 0; i < keys.count(); ++i) {
      ++(keys.clock(i) == ImageItem::kDropped ? dropped : rows);
    }
  }
  const ImageItem& head = parts_.begin()->second;
  return rows == head.rows && dropped == head.dropped;
}

RowCopy::Taken RowCopy::take(const ImageItem& part) {
  if (!is_sound(part)) return Taken::kPart;
  if (part.base != 0 && part.base != sequence_) return Taken::kLacking;
  if (!parts_.empty()) {
    const ImageItem& head = parts_.begin()->second;
    if (part.sequence < head.sequence) return Taken::kPart;
    if (part.sequence > head.sequence) {
      parts_.clear();
    } else if (!is_same_image(part, head)) {
      return Taken::kPart;
    }
  }
  parts_.insert_or_assign(Keys(part).lowest(), part);
  if (is_whole()) return finish();
  std::uint64_t bytes = 0;
  for (const auto& [lowest, one] : parts_) {
    bytes += one.keys.size() + one.values.size() * (1 + states_);
  }
  // No image is this large: these are not parts of one.
  if (bytes > kMaxPartsBytes) parts_.clear();
  return Taken::kPart;
}

/// A row's floats are the values, then each state; a part stores them separately.
void RowCopy::apply(const ImageItem& part, RowStore& to) const {
  const Keys keys(part);
  const std::size_t bytes = table_.width() * sizeof(float);
  std::size_t row = 0;
  for (std::size_t i = 0; i < keys.count(); ++i) {
    if (keys.clock(i) == ImageItem::kDropped) {
      to.remove(keys.number(i));
      continue;
    }
    float* floats = to.put(keys.number(i), Clock(keys.clock(i))).data();
    std::memcpy(floats, part.values.bytes().data() + row * bytes, bytes);
    for (const Frame& state : part.states) {
      floats += table_.width();
      std::memcpy(floats, state.bytes().data() + row * bytes, bytes);
    }
    ++row;
  }
}

RowCopy::Taken RowCopy::finish() {
  const auto parts = std::exchange(parts_, {});
  const ImageItem& head = parts.begin()->second;
  try {
    if (head.base == 0) {
      // The image before it stays until this one is complete.
      auto store = std::make_unique<RowStore>(table_, 0, states_);
      for (const auto& [lowest, part] : parts) apply(part, *store);
      store_ = std::move(store);
    } else {
      for (const auto& [lowest, part] : parts) apply(part, *store_);
    }
  } catch (const std::bad_alloc&) {
    if (head.base == 0) return Taken::kPart;  // it is sent again
    // Some rows are of this image, others are not.
    store_.reset();
    sequence_ = 0;
    return Taken::kLacking;
  }
  if (store_->rows() > max_rows()) {
    // The primary has sent more rows than the bucket keeps.
    store_.reset();
    sequence_ = 0;
    return Taken::kLacking;
  }
  sequence_ = head.sequence;
  return Taken::kWhole;
}

}  // namespace taut::server
