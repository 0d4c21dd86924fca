#include "worker/cache/local_cache.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.hpp"
#include "common/math/filler.hpp"
#include "common/math/update_kernels.hpp"
#include "worker/backend/cpu_backend.hpp"

namespace taut {

LocalCache::LocalCache(Backend& backend, std::vector<TableSpec> tables, Options options)
    : options_(std::move(options)) {
  TAUT_CHECK(backend.shares_host_memory(), "local updates run in host memory");
  for (TableSpec& spec : tables) {
    Table table;
    const std::size_t count = spec.count();
    table.values = backend.allocate_floats(count);
    math::fill(spec.filler, options_.seed, spec.name, 0, host_view(table.values.as<float>()));
    if (spec.kind == TableKind::kTrained) {
      table.state.assign(static_cast<std::size_t>(options_.rule.state_count()),
                         std::vector<float>(count, 0.0F));
    }
    for (std::size_t replica = 0; replica < options_.replicas; ++replica) {
      table.gradients.push_back(backend.allocate_floats(count));
    }
    table.spec = std::move(spec);
    tables_.push_back(std::move(table));
  }
}

Result<DeviceSpan<const float>> LocalCache::acquire(TableId table, Clock /*clock*/) {
  ++staleness_[0];
  return DeviceSpan<const float>(tables_[table.value()].values.as<float>());
}

DeviceSpan<float> LocalCache::gradient(std::size_t replica, TableId table) {
  return tables_[table.value()].gradients[replica].as<float>();
}

void LocalCache::publish(std::size_t /*replica*/, TableId /*table*/, Clock /*clock*/) {}

void LocalCache::finish_clock(std::size_t replica, Clock clock) {
  if (replica + 1 < options_.replicas) return;
  const std::vector<float> scales = clip_scales();
  for (Table& table : tables_) {
    if (table.spec.kind != TableKind::kFrozen) apply(table, clock, scales);
  }
  clock_ = clock.next();
}

std::vector<float> LocalCache::clip_scales() const {
  std::vector<float> scales(options_.replicas, 1.0F);
  if (options_.rule.clip_norm <= 0) return scales;
  for (std::size_t replica = 0; replica < options_.replicas; ++replica) {
    double squares = 0;
    for (const Table& table : tables_) {
      if (table.spec.kind != TableKind::kTrained) continue;
      squares += math::sum_of_squares(host_view(table.gradients[replica].as<float>()));
    }
    const auto norm = static_cast<float>(std::sqrt(squares));
    scales[replica] = math::clip_scale(options_.rule, norm);
  }
  return scales;
}

void LocalCache::apply(Table& table, Clock clock, const std::vector<float>& scales) {
  std::vector<math::GradientView> gradients;
  for (std::size_t replica = 0; replica < options_.replicas; ++replica) {
    const auto view = host_view(table.gradients[replica].as<float>());
    // Running statistics are no gradients: nothing clips them.
    const bool clipped = table.spec.kind == TableKind::kTrained;
    gradients.push_back({std::as_bytes(view).data(), clipped ? scales[replica] : 1.0F});
  }
  const auto values = host_view(table.values.as<float>());
  if (table.spec.kind == TableKind::kAveraged) {
    math::apply_average(gradients, 1.0F, values, values);
    return;
  }
  std::vector<float*> state;
  for (auto& one : table.state) state.push_back(one.data());
  const math::UpdateStep step = math::make_step(options_.rule, clock.value(), table.spec.lr_mult,
                                                table.spec.decay_mult, 1.0, clock.value());
  const float scale =
      options_.sum ? 1.0F : static_cast<float>(1.0 / static_cast<double>(options_.replicas));
  math::apply_update(options_.rule.kind, step, gradients, scale, values, values, state);
}

Result<Clock> LocalCache::snapshot(TableId table, std::span<float> into) {
  std::ranges::copy(host_view(tables_[table.value()].values.as<float>()), into.begin());
  return clock_;
}

}  // namespace taut
