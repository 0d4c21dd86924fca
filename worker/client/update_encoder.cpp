#include "worker/client/update_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "common/timeline.hpp"

namespace taut {

void UpdateEncoder::open(const std::vector<TableSpec>& tables, const SliceLayout& layout) {
  std::scoped_lock lock(mutex_);
  layout_ = layout;
  tables_.clear();
  residuals_.clear();
  next_.assign(tables.size(), Clock(-1));
  for (const TableSpec& table : tables) {
    tables_.push_back(encoding_.compression.of_push(table));
    residuals_.emplace_back(tables_.back().has_residual() ? table.count() : 0);
  }
}

std::vector<Update> UpdateEncoder::encode(TableId table, Clock clock, const Frame& gradient,
                                          float norm, BufferPool& pool) {
  const math::Encoding encoding = tables_[table.value()];
  if (encoding.codec == math::Codec::kFloat32 || encoding_.compression.is_seed(clock)) {
    return cut(gradient, table, clock, norm);
  }
  const timeline::Span span(timeline::Row::kPush, "encode", clock.value());
  const std::span whole(reinterpret_cast<const float*>(gradient.bytes().data()),
                        gradient.size() / sizeof(float));
  std::unique_lock<std::mutex> lock;
  if (encoding.has_residual()) {
    lock = std::unique_lock(mutex_);
    next_[table.value()] = clock.next();
    encoded_.notify_all();  // a thread that waits for it takes the lock when the table is encoded
    if (sends_rest_) return encode_rest(table, clock, whole, norm, pool);
  }
  const auto slices = layout_.slices_of(table);
  std::vector<Update> updates;
  updates.reserve(slices.size());
  std::size_t bytes = 0;
  for (const Slice& slice : slices) bytes += math::encoded_bytes(encoding, slice.count);
  const Buffer encoded = pool.acquire(bytes);
  std::size_t begin = 0;
  for (const Slice& slice : slices) {
    const auto size = static_cast<std::size_t>(math::encoded_bytes(encoding, slice.count));
    const math::Draw draw = math::draw_of(encoding_.seed, static_cast<std::uint64_t>(clock.value()),
                                          encoding_.slot, table.value(), slice.slice.value());
    const auto values = whole.subspan(slice.offset, slice.count);
    const auto residual = std::span(residuals_[table.value()]);
    math::encode(encoding, values, draw, encoded.data() + begin,
                 residual.empty() ? residual : residual.subspan(slice.offset, slice.count));
    updates.push_back({clock, Frame(encoded).part(begin, size), norm, encoding});
    begin += size;
  }
  return updates;
}

/// REQUIRES: the lock.
std::vector<Update> UpdateEncoder::encode_rest(TableId table, Clock clock,
                                               std::span<const float> gradient, float norm,
                                               BufferPool& pool) {
  const Buffer whole = pool.acquire(gradient.size_bytes());
  std::vector<float>& residual = residuals_[table.value()];
  std::ranges::transform(gradient, residual, whole.floats().begin(), std::plus());
  std::ranges::fill(residual, 0.0F);
  return cut(Frame(whole), table, clock, norm);
}

/// A table's values as they are, slice by slice.
std::vector<Update> UpdateEncoder::cut(const Frame& whole, TableId table, Clock clock,
                                       float norm) const {
  std::vector<Update> updates;
  for (const Slice& slice : layout_.slices_of(table)) {
    updates.push_back(
        {clock, whole.part(slice.offset * sizeof(float), slice.count * sizeof(float)), norm});
  }
  return updates;
}

bool UpdateEncoder::keeps_residuals() const {
  return std::ranges::any_of(tables_, &math::Encoding::has_residual);
}

Result<Residuals> UpdateEncoder::residuals(Clock start, Clock clock, Duration wait) {
  std::unique_lock lock(mutex_);
  const auto is_encoded = [&] {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      if (tables_[i].has_residual() && next_[i] < clock) return clock == start;
    }
    return true;
  };
  if (encoded_.wait_for(lock, wait, is_encoded)) return residuals_;
  return make_error(ErrorCode::kTimeout,
                    fmt::format("the updates before clock {} took longer than {:.1f} s to encode",
                                clock.value(), seconds(wait)));
}

bool UpdateEncoder::restore(Residuals residuals) {
  std::scoped_lock lock(mutex_);
  const bool fits = std::ranges::equal(residuals, residuals_, {}, &std::vector<float>::size,
                                       &std::vector<float>::size);
  if (fits) residuals_ = std::move(residuals);
  return fits;
}

}  // namespace taut
