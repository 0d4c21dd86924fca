#include "worker/cache/local_cache.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.hpp"
#include "common/math/filler.hpp"
#include "common/math/update_kernels.hpp"
#include "common/ssp/slice_layout.hpp"
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

Result<void> LocalCache::read_origins() {
  for (Table& table : tables_) {
    if (!table.spec.origin) continue;
    const TensorPlace& origin = *table.spec.origin;
    TAUT_TRY(const TensorFile file, TensorFile::open(origin.file));
    TAUT_TRY(file.read_floats(origin.type, origin.offset, host_view(table.values.as<float>())));
  }
  return ok();
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
  const std::vector<float> norms = gradient_norms();
  for (Table& table : tables_) {
    if (table.spec.kind != TableKind::kFrozen) apply(table, clock, norms);
  }
  clock_ = clock.next();
}

/// Each replica's norm over all trained tables, where the rule wants it.
std::vector<float> LocalCache::gradient_norms() const {
  std::vector<float> norms(options_.replicas, 0.0F);
  if (options_.rule.update_norm() != math::UpdateNorm::kGradient) return norms;
  for (std::size_t replica = 0; replica < options_.replicas; ++replica) {
    double squares = 0;
    for (const Table& table : tables_) {
      if (table.spec.kind != TableKind::kTrained) continue;
      squares += math::sum_of_squares(host_view(table.gradients[replica].as<float>()));
    }
    norms[replica] = static_cast<float>(std::sqrt(squares));
  }
  return norms;
}

void LocalCache::apply(Table& table, Clock clock, const std::vector<float>& norms) {
  const auto values = host_view(table.values.as<float>());
  const bool averaged = table.spec.kind == TableKind::kAveraged;
  std::vector<math::GradientView> gradients;
  for (std::size_t replica = 0; replica < options_.replicas; ++replica) {
    const auto view = host_view(table.gradients[replica].as<float>());
    float norm = norms[replica];
    if (!averaged && options_.rule.update_norm() == math::UpdateNorm::kRelative) {
      norm = math::relative_norm(view, values);
    }
    // Running statistics are no gradients: nothing scales them.
    const float scale =
        averaged ? 1.0F : math::update_scale(options_.rule, norm, table.spec.decay_mult);
    gradients.push_back({std::as_bytes(view).data(), scale});
  }
  if (averaged) {
    math::apply_average(gradients, 1.0F, values, values);
  } else {
    descend(table, clock, gradients);
  }
}

/// One application of the rule, slice by slice as a shard does it: LAMB's norms are a slice's.
void LocalCache::descend(Table& table, Clock clock,
                         const std::vector<math::GradientView>& gradients) {
  std::vector<float> scales;
  for (const math::GradientView& gradient : gradients) scales.push_back(gradient.scale);
  const double share = math::decay_share(options_.rule, scales, options_.replicas);
  const math::UpdateStep step = math::make_step(options_.rule, clock.value(), table.spec.lr_mult,
                                                table.spec.decay_mult, share, clock.value());
  const float scale =
      options_.sum ? 1.0F : static_cast<float>(1.0 / static_cast<double>(options_.replicas));
  const auto values = host_view(table.values.as<float>());
  for (std::size_t begin = 0; begin < values.size(); begin += SliceLayout::kSliceElements) {
    const auto slice = values.subspan(
        begin, std::min<std::size_t>(SliceLayout::kSliceElements, values.size() - begin));
    std::vector<math::GradientView> parts = gradients;
    for (math::GradientView& part : parts) part.bytes += begin * sizeof(float);
    std::vector<float*> state;
    for (auto& one : table.state) state.push_back(one.data() + begin);
    math::apply_update(options_.rule.kind, step, parts, scale, slice, slice, state);
  }
}

Result<Clock> LocalCache::snapshot(TableId table, std::span<float> into) {
  std::ranges::copy(host_view(tables_[table.value()].values.as<float>()), into.begin());
  return clock_;
}

}  // namespace taut
