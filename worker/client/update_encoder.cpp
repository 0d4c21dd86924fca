#include "worker/client/update_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <span>
#include <utility>

#include "common/math/codec.hpp"
#include "common/math/momentum_correction.hpp"
#include "common/timeline.hpp"

namespace taut {

namespace {

std::span<const float> floats(const Frame& frame) {
  return {reinterpret_cast<const float*>(frame.bytes().data()), frame.size() / sizeof(float)};
}

}  // namespace

void UpdateEncoder::open(const std::vector<TableSpec>& tables, const SliceLayout& layout) {
  std::scoped_lock lock(mutex_);
  layout_ = layout;
  tables_ = tables;
  residuals_.clear();
  next_.assign(tables.size(), Clock(-1));
  sources_.assign(tables.size(), {});
  for (const TableSpec& table : tables) {
    const math::Encoding encoding = encoding_.compression.of_push(table);
    std::uint64_t kept = 0;
    for (const Slice& slice : layout.slices_of(table.id)) {
      kept += math::state_values(encoding, slice.count);
    }
    if (has_velocity(table)) kept += table.count();
    residuals_.emplace_back(kept);
  }
}

bool UpdateEncoder::has_velocity(const TableSpec& table) const {
  return encoding_.compression.correction().has_value() && table.kind == TableKind::kTrained;
}

std::vector<Update> UpdateEncoder::encode(TableId table, Clock clock, const Frame& gradient,
                                          float norm, BufferPool& pool) {
  if (encoding_.compression.is_seed(clock)) return cut(gradient, table, clock, norm);
  std::unique_lock<std::mutex> lock;
  Frame whole = gradient;
  if (!residuals_[table.value()].empty()) {
    lock = std::unique_lock(mutex_);
    next_[table.value()] = clock.next();
    encoded_.notify_all();  // a thread that waits for it takes the lock when the table is encoded
    if (has_velocity(tables_[table.value()])) {
      whole = advance(table, gradient, norm, pool);
      norm = 0;
    }
  }
  const math::Encoding encoding = encoding_.compression.of_push(tables_[table.value()], clock);
  if (encoding.codec == math::Codec::kFloat32) return cut(whole, table, clock, norm);
  if (encoding.has_residual() && sends_rest_) {
    return encode_rest(encoding, table, clock, whole, norm, pool);
  }
  return encode_slices(encoding, table, clock, whole, norm, pool);
}

/// REQUIRES: the lock, if something of the table is kept.
std::vector<Update> UpdateEncoder::encode_slices(const math::Encoding& encoding, TableId table,
                                                 Clock clock, const Frame& gradient, float norm,
                                                 BufferPool& pool) {
  const timeline::Span span(timeline::Row::kPush, "encode", clock.value());
  const auto slices = layout_.slices_of(table);
  std::vector<Update> updates;
  updates.reserve(slices.size());
  std::size_t bytes = 0;
  for (const Slice& slice : slices) bytes += math::encoded_bytes(encoding, slice.count);
  const Buffer encoded = pool.acquire(bytes);
  const std::span kept(residuals_[table.value()]);
  std::size_t begin = 0;
  std::size_t done = 0;  // of what is kept
  for (const Slice& slice : slices) {
    const auto size = static_cast<std::size_t>(math::encoded_bytes(encoding, slice.count));
    const math::Draw draw = math::draw_of(encoding_.seed, static_cast<std::uint64_t>(clock.value()),
                                          encoding_.slot, table.value(), slice.slice.value());
    const auto state = kept.subspan(done, math::state_values(encoding, slice.count));
    math::encode(encoding, floats(gradient).subspan(slice.offset, slice.count), draw,
                 encoded.data() + begin, state);
    updates.push_back({clock, Frame(encoded).part(begin, size), norm, encoding});
    begin += size;
    done += state.size();
  }
  if (encoding.is_sparse() && has_velocity(tables_[table.value()])) {
    math::clear_sent_velocities(kept.first(done), kept.data() + done);
  }
  return updates;
}

/// Returns a table's velocities, advanced by its clipped gradient. Those kept of a slice do not
/// change if one of them would not be finite, nor any if the norm is not: shards refuse such
/// updates. REQUIRES: the lock.
Frame UpdateEncoder::advance(TableId table, const Frame& gradient, float norm, BufferPool& pool) {
  const Compression::Correction& correction = *encoding_.compression.correction();
  const float scale = correction.scale(norm);
  const auto given = floats(gradient);
  const auto velocity = std::span(residuals_[table.value()]).last(given.size());
  const Buffer moved = pool.acquire(gradient.size());
  for (const Slice& slice : layout_.slices_of(table)) {
    math::advance_velocity(correction.momentum, scale, given.subspan(slice.offset, slice.count),
                           velocity.subspan(slice.offset, slice.count),
                           moved.floats().subspan(slice.offset).data());
  }
  return Frame(moved);
}

/// REQUIRES: the lock.
std::vector<Update> UpdateEncoder::encode_rest(const math::Encoding& encoding, TableId table,
                                               Clock clock, const Frame& gradient, float norm,
                                               BufferPool& pool) {
  const Buffer whole = pool.acquire(gradient.size());
  std::size_t done = 0;  // of what is kept
  for (const Slice& slice : layout_.slices_of(table)) {
    const auto residual = std::span(residuals_[table.value()]).subspan(done, slice.count);
    std::ranges::transform(floats(gradient).subspan(slice.offset, slice.count), residual,
                           whole.floats().subspan(slice.offset).begin(), std::plus());
    std::ranges::fill(residual, 0.0F);
    done += math::state_values(encoding, slice.count);
  }
  return cut(Frame(whole), table, clock, norm);
}

/// A table's values, unchanged, slice by slice.
std::vector<Update> UpdateEncoder::cut(const Frame& whole, TableId table, Clock clock,
                                       float norm) const {
  std::vector<Update> updates;
  for (const Slice& slice : layout_.slices_of(table)) {
    updates.push_back(
        {clock, whole.part(slice.offset * sizeof(float), slice.count * sizeof(float)), norm});
  }
  return updates;
}

TableEncoding UpdateEncoder::encoding_of(TableId table, Clock clock) const {
  constexpr std::size_t kAlignment = 16;
  TableEncoding all;
  const TableSpec& spec = tables_[table.value()];
  all.encoding = encoding_.compression.of_push(spec, clock);
  if (has_velocity(spec) && !encoding_.compression.is_seed(clock)) {
    all.correction = encoding_.compression.correction();
  }
  for (const Slice& slice : layout_.slices_of(table)) {
    const math::Draw draw = math::draw_of(encoding_.seed, static_cast<std::uint64_t>(clock.value()),
                                          encoding_.slot, table.value(), slice.slice.value());
    all.parts.push_back({slice.offset, slice.count, draw, all.bytes});
    const auto size = static_cast<std::size_t>(math::encoded_bytes(all.encoding, slice.count));
    all.bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  return all;
}

std::vector<Update> UpdateEncoder::adopt(TableId table, Clock clock, const Frame& memory,
                                         const TableEncoding& encoding, float norm) {
  if (!residuals_[table.value()].empty()) {
    const std::scoped_lock lock(mutex_);
    next_[table.value()] = clock.next();
    encoded_.notify_all();
  }
  if (encoding.correction) norm = 0;  // it is clipped
  std::vector<Update> updates;
  updates.reserve(encoding.parts.size());
  for (const TableEncoding::Part& part : encoding.parts) {
    const auto size = static_cast<std::size_t>(math::encoded_bytes(encoding.encoding, part.count));
    updates.push_back({clock, memory.part(part.begin, size), norm, encoding.encoding});
  }
  return updates;
}

std::vector<float> UpdateEncoder::hand_over(TableId table, ResidualSource source) {
  const std::scoped_lock lock(mutex_);
  sources_[table.value()] = std::move(source);
  std::vector<float>& kept = residuals_[table.value()];
  return std::exchange(kept, std::vector<float>(kept.size()));
}

void UpdateEncoder::forget_sources() {
  const std::scoped_lock lock(mutex_);
  sources_.assign(sources_.size(), {});
}

bool UpdateEncoder::leaves_out() const {
  return std::ranges::any_of(tables_, [this](const TableSpec& table) {
    return encoding_.compression.of_push(table).has_residual();
  });
}

bool UpdateEncoder::keeps_residuals() const {
  return !std::ranges::all_of(residuals_, &std::vector<float>::empty);
}

Result<Residuals> UpdateEncoder::residuals(Clock start, Clock clock, Duration wait) {
  std::unique_lock lock(mutex_);
  const auto is_encoded = [&] {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      if (!residuals_[i].empty() && next_[i] < clock) return clock == start;
    }
    return true;
  };
  if (!encoded_.wait_for(lock, wait, is_encoded)) {
    return make_error(ErrorCode::kTimeout,
                      fmt::format("the updates before clock {} took longer than {:.1f} s to encode",
                                  clock.value(), seconds(wait)));
  }
  Residuals all = residuals_;
  const std::vector<ResidualSource> sources = sources_;
  lock.unlock();
  try {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i]) sources[i](all[i]);
    }
  } catch (const std::exception& failure) {
    return make_error(ErrorCode::kUnavailable, failure.what());
  }
  return all;
}

bool UpdateEncoder::restore(Residuals residuals) {
  std::scoped_lock lock(mutex_);
  const bool fits = std::ranges::equal(residuals, residuals_, {}, &std::vector<float>::size,
                                       &std::vector<float>::size);
  if (fits) residuals_ = std::move(residuals);
  return fits;
}

}  // namespace taut
