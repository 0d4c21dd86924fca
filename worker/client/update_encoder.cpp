#include "worker/client/update_encoder.hpp"

#include <span>

#include "common/timeline.hpp"

namespace taut {

void UpdateEncoder::open(const std::vector<TableSpec>& tables, const SliceLayout& layout) {
  layout_ = layout;
  tables_.clear();
  residuals_.clear();
  for (const TableSpec& table : tables) {
    tables_.push_back(encoding_.compression.of_push(table));
    residuals_.emplace_back(tables_.back().has_residual() ? table.count() : 0);
  }
}

std::vector<Update> UpdateEncoder::encode(TableId table, Clock clock, const Buffer& gradient,
                                          float norm, BufferPool& pool) {
  const math::Encoding encoding = tables_[table.value()];
  const auto slices = layout_.slices_of(table);
  std::vector<Update> updates;
  updates.reserve(slices.size());
  if (encoding.codec == math::Codec::kFloat32) {
    const Frame whole(gradient);
    for (const Slice& slice : slices) {
      const Frame part = whole.part(slice.offset * sizeof(float), slice.count * sizeof(float));
      updates.push_back({clock, part, norm, encoding});
    }
    return updates;
  }
  const timeline::Span span(timeline::Row::kPush, "encode", clock.value());
  std::size_t bytes = 0;
  for (const Slice& slice : slices) bytes += math::encoded_bytes(encoding, slice.count);
  const Buffer encoded = pool.acquire(bytes);
  std::size_t begin = 0;
  for (const Slice& slice : slices) {
    const auto size = static_cast<std::size_t>(math::encoded_bytes(encoding, slice.count));
    const math::Draw draw = math::draw_of(encoding_.seed, static_cast<std::uint64_t>(clock.value()),
                                          encoding_.slot, table.value(), slice.slice.value());
    const auto values = gradient.floats().subspan(slice.offset, slice.count);
    const auto residual = std::span(residuals_[table.value()]);
    math::encode(encoding, values, draw, encoded.data() + begin,
                 residual.empty() ? residual : residual.subspan(slice.offset, slice.count));
    updates.push_back({clock, Frame(encoded).part(begin, size), norm, encoding});
    begin += size;
  }
  return updates;
}

}  // namespace taut
