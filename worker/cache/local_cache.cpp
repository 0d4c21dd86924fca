#include "worker/cache/local_cache.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/math/filler.hpp"
#include "common/math/update_kernels.hpp"
#include "common/ssp/slice_layout.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut {

LocalCache::LocalCache(Backend& backend, std::vector<TableSpec> tables, Options options)
    : backend_(backend),
      options_(std::move(options)),
      own_stream_(backend.make_stream()),
      stream_(own_stream_.get()) {
  for (TableSpec& spec : tables) {
    Table table;
    const std::size_t count = spec.count();
    const std::string name = "parameter " + spec.name;
    table.values = backend.allocate_floats(count, BufferKind::kParameter, name);
    const std::size_t gradients = spec.kind == TableKind::kFrozen ? 0 : options_.replicas;
    for (std::size_t replica = 0; replica < gradients; ++replica) {
      table.gradients.push_back(
          backend.allocate_floats(count, BufferKind::kGradient, "gradient of " + name));
    }
    table.spec = std::move(spec);
    fill_values(table);
    if (table.spec.kind == TableKind::kTrained) add_state(table, name);
    tables_.push_back(std::move(table));
  }
  stream_->finish();
}

/// Elements of a table that are updated together. Norms by slice are over the slices of a shard.
/// With a budget only a piece's values, gradient and state are on the device together, not the
/// whole table's.
std::size_t LocalCache::piece_of(std::size_t count) const {
  if (options_.rule.is_scaled_by_slice()) return SliceLayout::kSliceElements;
  const std::uint64_t budget = options_.budget.value();
  constexpr std::uint64_t kMinElements = 65536;
  constexpr std::uint64_t kShare = 64;  // of the budget
  return budget == 0 ? count : std::max(kMinElements, budget / kShare / sizeof(float));
}

void LocalCache::add_state(Table& table, const std::string& name) {
  const std::size_t count = table.spec.count();
  table.piece = piece_of(count);
  for (std::size_t begin = 0; begin < count; begin += table.piece) {
    auto& state = table.state.emplace_back();
    for (int i = 0; i < options_.rule.state_count(); ++i) {
      state.push_back(backend_.allocate_floats(std::min(table.piece, count - begin),
                                               BufferKind::kParameter,
                                               name + "'s optimiser state"));
      backend_.fill(*stream_, state.back().as<float>(), 0);
    }
  }
}

void LocalCache::fill_values(const Table& table) {
  write_values(table, [&](std::span<float> into) -> Result<void> {
    math::fill(table.spec.filler, options_.seed, table.spec.name, 0, into);
    return ok();
  }).value();
}

/// Calls `write` for a table's values on the host, and copies them to the device.
Result<void> LocalCache::write_values(const Table& table,
                                      const std::function<Result<void>(std::span<float>)>& write) {
  const DeviceSpan<float> values = table.values.as<float>();
  if (backend_.shares_host_memory()) return write(host_view(values));
  const HostBuffer staging = backend_.allocate_host(values.size_bytes());
  TAUT_TRY(write(staging.as<float>()));
  backend_.copy_to_device(*stream_, staging.as<float>(), values);
  stream_->finish();
  return ok();
}

Result<void> LocalCache::read_origins() {
  for (Table& table : tables_) {
    if (!table.spec.origin) continue;
    const TensorPlace& origin = *table.spec.origin;
    TAUT_TRY(const TensorFile file, TensorFile::open(origin.file));
    TAUT_TRY(write_values(table, [&](std::span<float> into) -> Result<void> {
      return file.read_floats(origin.type, origin.offset, into);
    }));
  }
  return ok();
}

void LocalCache::read(TableId table, std::span<float> into) {
  backend_.copy_to_host(*stream_, tables_[table.value()].values.as<float>(), into);
  stream_->finish();
}

void LocalCache::write(TableId table, std::span<const float> values) {
  backend_.copy_to_device(*stream_, values, tables_[table.value()].values.as<float>());
  stream_->finish();
}

void LocalCache::read_gradient(std::size_t replica, TableId table, std::span<float> into) {
  backend_.copy_to_host(*stream_, gradient(replica, table), into);
  stream_->finish();
}

void LocalCache::write_gradient(std::size_t replica, TableId table, std::span<const float> values) {
  backend_.copy_to_device(*stream_, values, gradient(replica, table));
  stream_->finish();
}

void LocalCache::read_state(TableId id, std::size_t array, std::span<float> into) {
  const Table& table = tables_[id.value()];
  for (std::size_t piece = 0; piece < table.state.size(); ++piece) {
    const DeviceSpan<const float> part = table.state[piece][array].as<float>();
    backend_.copy_to_host(*stream_, part, into.subspan(piece * table.piece, part.size()));
  }
  stream_->finish();
}

void LocalCache::write_state(TableId id, std::size_t array, std::span<const float> values) {
  const Table& table = tables_[id.value()];
  for (std::size_t piece = 0; piece < table.state.size(); ++piece) {
    const DeviceSpan<float> part = table.state[piece][array].as<float>();
    backend_.copy_to_device(*stream_, values.subspan(piece * table.piece, part.size()), part);
  }
  stream_->finish();
}

std::vector<std::vector<float>> LocalCache::read_state(TableId id) {
  const Table& table = tables_[id.value()];
  const std::size_t arrays = table.state.empty() ? 0 : table.state.front().size();
  std::vector<std::vector<float>> state(arrays, std::vector<float>(table.spec.count()));
  for (std::size_t i = 0; i < arrays; ++i) read_state(id, i, state[i]);
  return state;
}

void LocalCache::write_state(TableId id, const std::vector<std::vector<float>>& state) {
  for (std::size_t i = 0; i < state.size(); ++i) write_state(id, i, state[i]);
}

Result<DeviceSpan<const float>> LocalCache::acquire(std::size_t /*replica*/, TableId table,
                                                    Clock /*clock*/) {
  if (!backend_.in_dry_run()) ++staleness_[0];
  return DeviceSpan<const float>(tables_[table.value()].values.as<float>());
}

DeviceSpan<float> LocalCache::gradient(std::size_t replica, TableId table) {
  return tables_[table.value()].gradients[replica].as<float>();
}

void LocalCache::publish(std::size_t /*replica*/, TableId /*table*/, Clock /*clock*/) {}

void LocalCache::finish_clock(std::size_t replica, Clock clock) {
  if (replica + 1 < options_.replicas) return;
  const std::vector<float> norms = gradient_norms();
  for (Table& table : tables_) {
    if (table.spec.kind != TableKind::kFrozen) apply(table, clock, norms);
  }
  backend_.apply_updates(*stream_, std::exchange(updates_, {}));
  backend_.apply_averages(*stream_, std::exchange(averages_, {}));
  if (!backend_.in_dry_run()) clock_ = clock.next();
}

/// Each replica's norm over all trained tables, if the rule uses one.
std::vector<float> LocalCache::gradient_norms() {
  std::vector<float> norms(options_.replicas, 0.0F);
  if (options_.rule.update_norm() != math::UpdateNorm::kGradient) return norms;
  for (std::size_t replica = 0; replica < options_.replicas; ++replica) {
    std::vector<DeviceSpan<const float>> parts;
    for (const Table& table : tables_) {
      if (table.spec.kind != TableKind::kTrained) continue;
      parts.emplace_back(table.gradients[replica].as<float>());
    }
    norms[replica] = static_cast<float>(std::sqrt(backend_.sum_of_squares(*stream_, parts)));
  }
  return norms;
}

double LocalCache::squares_of(const DeviceBuffer& buffer) {
  const DeviceSpan<const float> whole = buffer.as<float>();
  return backend_.sum_of_squares(*stream_, std::span(&whole, 1));
}

void LocalCache::apply(Table& table, Clock clock, const std::vector<float>& norms) {
  const bool averaged = table.spec.kind == TableKind::kAveraged;
  std::vector<DeviceGradient> gradients;
  for (std::size_t replica = 0; replica < options_.replicas; ++replica) {
    const DeviceBuffer& gradient = table.gradients[replica];
    float norm = norms[replica];
    if (!averaged && options_.rule.update_norm() == math::UpdateNorm::kRelative) {
      norm = math::relative_norm(squares_of(gradient), squares_of(table.values));
    }
    // Running statistics are not gradients, and are not scaled.
    const float scale =
        averaged ? 1.0F : math::update_scale(options_.rule, norm, table.spec.decay_mult);
    gradients.push_back({gradient.as<float>(), scale});
  }
  if (averaged) {
    averages_.push_back({std::move(gradients), 1.0F, table.values.as<float>()});
  } else {
    descend(table, clock, gradients);
  }
}

/// Adds one application of the rule, piece by piece; it runs with those of the other tables.
void LocalCache::descend(Table& table, Clock clock, const std::vector<DeviceGradient>& gradients) {
  std::vector<float> scales;
  scales.reserve(gradients.size());
  for (const DeviceGradient& gradient : gradients) scales.push_back(gradient.scale);
  const double share = math::decay_share(options_.rule, scales, options_.replicas);
  DeviceUpdate update;
  update.kind = options_.rule.kind;
  update.step =
      math::make_step(options_.rule, clock.value(), table.spec.lr_mult, table.spec.decay_mult,
                      share, clock - state_from_, options_.replicas);
  update.scale =
      options_.sum ? 1.0F : static_cast<float>(1.0 / static_cast<double>(options_.replicas));
  const DeviceSpan<float> values = table.values.as<float>();
  std::size_t begin = 0;
  for (const std::vector<DeviceBuffer>& piece : table.state) {
    const std::size_t count = std::min(table.piece, values.size() - begin);
    std::vector<DeviceGradient> parts = gradients;
    for (DeviceGradient& part : parts) part.values = part.values.subspan(begin, count);
    std::vector<DeviceSpan<float>> state;
    state.reserve(piece.size());
    for (const DeviceBuffer& one : piece) state.push_back(one.as<float>());
    updates_.push_back({update, std::move(parts), values.subspan(begin, count), std::move(state)});
    begin += count;
  }
}

Result<Clock> LocalCache::snapshot(TableId table, std::span<float> into) {
  read(table, into);
  return clock_;
}

}  // namespace taut
