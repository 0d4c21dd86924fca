#include "server/checkpoints/row_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "common/check.hpp"
#include "common/math/finite.hpp"
#include "common/ssp/row_buckets.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "server/tables/row_list.hpp"

namespace taut::server {
namespace {

constexpr std::size_t kBlockBytes = 1UL << 20U;

/// Collects elements for an output.
template <class Element>
class Blocks {
 public:
  using Check = std::function<Result<void>(std::span<const Element> block)>;

  Blocks(CheckpointOutput& out, Check check) : out_(out), check_(std::move(check)) {
    block_.reserve(kBlockBytes / sizeof(Element));
  }

  [[nodiscard]] Result<void> add(std::span<const Element> elements) {
    block_.insert(block_.end(), elements.begin(), elements.end());
    if (block_.size() * sizeof(Element) < kBlockBytes) return ok();
    return flush();
  }
  [[nodiscard]] Result<void> flush() {
    if (block_.empty()) return ok();
    TAUT_TRY(check_(block_));
    TAUT_TRY(out_.append(std::as_bytes(std::span(block_))));
    block_.clear();
    return ok();
  }

 private:
  CheckpointOutput& out_;
  const Check check_;
  std::vector<Element> block_;
};

}  // namespace

std::vector<safetensors::TensorSpec> row_tensors(const TableSpec& table,
                                                 const pb::CheckpointSlice& slice) {
  std::vector<safetensors::TensorSpec> tensors;
  const std::vector<std::uint64_t> shape{slice.rows(), table.width()};
  tensors.push_back({row_numbers_tensor(table.name, slice), {slice.rows()}, ElementType::kU64});
  tensors.push_back({row_clocks_tensor(table.name, slice), {slice.rows()}, ElementType::kI64});
  tensors.push_back({slice_tensor(table.name, slice), shape});
  for (std::uint32_t state = 0; state < slice.states(); ++state) {
    tensors.push_back({state_tensor(table.name, slice, state), shape});
  }
  return tensors;
}

Result<void> append_rows(const RowImage& image, const TableSpec& table, CheckpointOutput& out,
                         const std::atomic<bool>& stop) {
  const std::size_t width = table.width();
  const std::vector<ListedRow> rows = rows_by_update(image, width);
  TAUT_CHECK(rows.size() == image.rows, "an image of other rows than it says");
  const auto check_stop = [&]() -> Result<void> {
    if (stop) return make_error(ErrorCode::kClosed, table.name + ": the server ends");
    return ok();
  };
  Blocks<std::uint64_t> numbers(out, [&](const auto&) { return check_stop(); });
  for (const ListedRow& row : rows) {
    TAUT_TRY(numbers.add({&row.number, 1}));
  }
  TAUT_TRY(numbers.flush());
  Blocks<std::int64_t> clocks(out, [&](const auto&) { return check_stop(); });
  for (const ListedRow& row : rows) {
    TAUT_TRY(clocks.add({&row.updated, 1}));
  }
  TAUT_TRY(clocks.flush());
  Blocks<float> floats(out, [&](std::span<const float> block) -> Result<void> {
    if (math::all_finite(block)) return check_stop();
    return invalid(fmt::format(
        "table \"{}\" has rows that are not finite: the training has diverged", table.name));
  });
  for (std::size_t part = 0; part <= image.states; ++part) {
    for (const ListedRow& row : rows) {
      TAUT_TRY(floats.add({row.floats + part * width, width}));
    }
    TAUT_TRY(floats.flush());
  }
  return ok();
}

namespace {

/// Numbers and clocks of a bucket's rows.
struct RowKeys {
  std::vector<std::uint64_t> numbers;
  std::vector<std::int64_t> clocks;
};

Result<void> check_keys(const RowKeys& keys, const CheckpointReader& saved, const TableSpec& table,
                        std::uint32_t bucket) {
  const auto damaged = [&](const std::string& what) {
    return invalid(fmt::format("{}: bucket {} of table \"{}\" {}: it is damaged",
                               saved.folder().string(), bucket, table.name, what));
  };
  const auto rows = static_cast<std::uint64_t>(table.shape[0]);
  for (std::size_t i = 0; i < keys.numbers.size(); ++i) {
    const std::uint64_t number = keys.numbers[i];
    if (number >= rows) return damaged(fmt::format("has row {} of {}", number, rows));
    if (bucket_of(number, table.rows->buckets) != bucket) {
      return damaged(fmt::format("has row {}, which belongs to another", number));
    }
    const Clock clock(keys.clocks[i]);
    if (clock < Clock() || clock >= Clock::never()) {
      return damaged(fmt::format("has row {} of clock {}", number, clock.value()));
    }
    if (i > 0 && std::tie(keys.clocks[i - 1], keys.numbers[i - 1]) >=
                     std::tie(keys.clocks[i], keys.numbers[i])) {
      return damaged(fmt::format("has row {} out of order", number));
    }
  }
  std::vector<std::uint64_t> sorted = keys.numbers;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) return damaged(fmt::format("has row {} twice", *twice));
  return ok();
}

}  // namespace

Result<RowImage> read_rows(const CheckpointReader& saved, const TableSpec& table,
                           std::uint32_t bucket) {
  const std::uint64_t rows = saved.bucket(table.id, bucket).rows();
  RowKeys keys;
  keys.numbers.resize(rows);
  keys.clocks.resize(rows);
  TAUT_TRY(saved.read_row_numbers(table.id, bucket, keys.numbers));
  TAUT_TRY(saved.read_row_clocks(table.id, bucket, keys.clocks));
  TAUT_TRY(check_keys(keys, saved, table, bucket));

  RowImage image;
  image.rows = rows;
  image.changes = saved.bucket(table.id, bucket).row_changes();
  image.states = saved.states_of(table.id);
  const std::size_t width = table.width();
  const std::size_t floats = (1 + image.states) * width;
  const std::size_t places = RowStore::places_of_chunk(floats);
  std::vector<float> part;
  for (std::uint64_t first = 0; first < rows; first += places) {
    const std::size_t count = std::min<std::uint64_t>(places, rows - first);
    auto chunk = std::make_shared<RowChunk>();
    const auto from = static_cast<std::ptrdiff_t>(first);
    const auto to = static_cast<std::ptrdiff_t>(first + count);
    chunk->numbers.assign(keys.numbers.begin() + from, keys.numbers.begin() + to);
    chunk->updated.assign(keys.clocks.begin() + from, keys.clocks.begin() + to);
    chunk->numbers.resize(places);
    chunk->updated.resize(places, RowChunk::kFree);
    chunk->floats.resize(places * floats);
    part.resize(count * width);
    for (std::size_t i = 0; i <= image.states; ++i) {
      TAUT_TRY(saved.read_row_floats(table.id, bucket, static_cast<std::uint32_t>(i), first, part));
      for (std::size_t row = 0; row < count; ++row) {
        std::copy_n(part.data() + row * width, width,
                    chunk->floats.data() + row * floats + i * width);
      }
    }
    image.chunks.push_back(std::move(chunk));
  }
  return image;
}

}  // namespace taut::server
