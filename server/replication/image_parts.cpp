#include "server/replication/image_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/ssp/row_buckets.hpp"

namespace taut::server {
namespace {

constexpr std::uint64_t kPartBytes = 1ULL << 20U;
constexpr std::uint64_t kKeyBytes = sizeof(std::uint64_t) + sizeof(std::int64_t);

std::uint64_t row_bytes(std::uint64_t width, std::uint64_t states) {
  return kKeyBytes + (1 + states) * width * sizeof(float);
}

template <class Number>
Frame frame_of(std::vector<Number> numbers) {
  const auto owned = std::make_shared<std::vector<Number>>(std::move(numbers));
  return {owned, std::as_bytes(std::span(*owned))};
}

/// A part under construction.
struct Part {
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint64_t> clocks;
  std::vector<const float*> rows;
  std::uint64_t bytes = 0;

  void add(std::uint64_t number, std::int64_t clock, std::uint64_t more) {
    numbers.push_back(number);
    clocks.push_back(static_cast<std::uint64_t>(clock));
    bytes += more;
  }
  /// state  0: the values; n: the n-th state
  [[nodiscard]] Frame floats(std::size_t state, std::size_t width) const {
    std::vector<float> floats;
    floats.reserve(rows.size() * width);
    for (const float* row : rows) {
      floats.insert(floats.end(), row + state * width, row + (state + 1) * width);
    }
    return frame_of(std::move(floats));
  }
  [[nodiscard]] Frame keys() const {
    std::vector<std::uint64_t> keys = numbers;
    keys.insert(keys.end(), clocks.begin(), clocks.end());
    return frame_of(std::move(keys));
  }
};

}  // namespace

std::uint64_t image_bytes(const ImageItem& image) {
  return image.keys.size() + image.values.size() * (1 + image.states.size());
}

std::uint64_t image_bytes(const std::vector<ImageItem>& parts) {
  std::uint64_t bytes = 0;
  for (const ImageItem& part : parts) bytes += image_bytes(part);
  return bytes;
}

std::vector<ImageItem> in_parts(ImageItem head, const RowChanges& changes, std::size_t width,
                                std::size_t states) {
  head.rows = changes.rows.size();
  head.dropped = changes.dropped.size();
  std::vector<ImageItem> parts;
  Part part;
  const auto finish = [&] {
    ImageItem& item = parts.emplace_back(head);
    item.keys = part.keys();
    item.values = part.floats(0, width);
    item.states.clear();
    for (std::size_t i = 1; i <= states; ++i) item.states.push_back(part.floats(i, width));
    part = {};
  };
  auto row = changes.rows.begin();
  auto dropped = changes.dropped.begin();
  while (row != changes.rows.end() || dropped != changes.dropped.end()) {
    if (part.bytes >= kPartBytes) finish();
    const bool is_row =
        dropped == changes.dropped.end() || (row != changes.rows.end() && row->number < *dropped);
    if (is_row) {
      part.add(row->number, row->updated, row_bytes(width, states));
      part.rows.push_back(row->floats);
      ++row;
    } else {
      part.add(*dropped++, ImageItem::kDropped, kKeyBytes);
    }
  }
  // An image without rows still needs a part.
  if (!part.numbers.empty() || parts.empty()) finish();
  return parts;
}

Result<void> check_bucket_bytes(const TableSpec& table, std::size_t states) {
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  const std::uint64_t rows = table.rows->max_rows == 0 ? all : std::min(all, table.rows->max_rows);
  const std::uint64_t rows_of_bucket = kMaxBucketBytes / row_bytes(table.width(), states);
  const std::uint64_t buckets = (rows + rows_of_bucket - 1) / rows_of_bucket;
  if (table.rows->buckets >= buckets) return ok();
  const std::string way_out =
      buckets <= kMaxBuckets
          ? fmt::format("it needs {} buckets, or a lower evict {{ max_rows }}", buckets)
          : fmt::format("with {} buckets evict {{ max_rows }} may be up to {}", kMaxBuckets,
                        kMaxBuckets * rows_of_bucket);
  return invalid(fmt::format(
      "table \"{}\" keeps up to {} rows of {} bytes in {} buckets, and a backup takes at most {} "
      "bytes of one: {}",
      table.name, rows, row_bytes(table.width(), states), table.rows->buckets, kMaxBucketBytes,
      way_out));
}

}  // namespace taut::server
