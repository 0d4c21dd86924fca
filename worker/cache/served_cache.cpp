#include "worker/cache/served_cache.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.hpp"
#include "common/math/update_kernels.hpp"
#include "worker/backend/cpu_backend.hpp"
#include "worker/cache/device_cache.hpp"

namespace taut {

Result<std::unique_ptr<ServedCache>> ServedCache::open(Client& client, Backend& backend,
                                                       std::vector<TableSpec> tables,
                                                       Options options) {
  TAUT_CHECK(backend.shares_host_memory(), "a served cache is in host memory");
  TAUT_TRY(client.open(tables, options.wait));
  std::unique_ptr<ServedCache> cache(new ServedCache(client, options));
  for (TableSpec& spec : tables) {
    Table table;
    table.front = backend.allocate_floats(spec.count(), "parameter " + spec.name);
    table.back = backend.allocate_floats(spec.count(), "parameter " + spec.name);
    table.spec = std::move(spec);
    cache->tables_.push_back(std::move(table));
  }
  for (Table& table : cache->tables_) {
    // A frozen table is never pushed, so it stays at clock 0 for ever.
    const Clock clock = table.spec.kind == TableKind::kFrozen ? Clock(0) : options.start;
    client.read(table.spec.id, clock, host_view(table.back.as<float>()));
  }
  return cache;
}

/// All tables are waited for at once: only together do they say how far the others have come.
Result<Clock> ServedCache::begin_clock(Clock clock) {
  if (!options_.catches_up) return clock;
  Clock reached = Clock::never();
  for (Table& table : tables_) {
    TAUT_TRY(bring(table, clock));
    if (table.spec.kind != TableKind::kFrozen) reached = std::min(reached, table.version);
  }
  if (reached == Clock::never() || reached <= clock) return clock;
  for (Table& table : tables_) {
    if (table.spec.kind != TableKind::kFrozen) table.held = reached;
  }
  return reached;
}

Result<DeviceSpan<const float>> ServedCache::acquire(std::size_t /*replica*/, TableId id,
                                                     Clock clock) {
  if (!options_.overlap) {
    for (Table& table : tables_) {
      TAUT_TRY(bring(table, clock));
    }
  }
  Table& table = tables_[id.value()];
  TAUT_TRY(bring(table, clock));
  return DeviceSpan<const float>(table.front.as<float>());
}

/// Waits for a table's values at a clock, and puts them in front.
Result<void> ServedCache::bring(Table& table, Clock clock) {
  const Clock wanted = table.spec.kind == TableKind::kFrozen ? Clock(0) : clock;
  if (table.held == wanted) return ok();
  TAUT_TRY(const ReadResult read, client_.wait(table.spec.id, wanted, options_.wait));
  std::swap(table.front, table.back);
  table.held = wanted;
  table.version = read.version;
  return ok();
}

DeviceSpan<float> ServedCache::gradient(std::size_t replica, TableId id) {
  TAUT_CHECK(replica == 0, "a served cache has one replica");
  Table& table = tables_[id.value()];
  if (!table.gradient) table.gradient = client_.gradient_buffer(id);
  const auto floats = table.gradient.floats();
  return {floats.data(), floats.size()};
}

void ServedCache::publish(std::size_t /*replica*/, TableId id, Clock clock) {
  if (leaves_at_once()) send(tables_[id.value()], clock, 0);
}

void ServedCache::finish_clock(std::size_t /*replica*/, Clock clock) {
  if (leaves_at_once()) return;
  const float norm = options_.norm == math::UpdateNorm::kGradient ? gradient_norm() : 0;
  for (Table& table : tables_) {
    if (table.gradient) send(table, clock, norm);
  }
}

/// Of all tables together.
float ServedCache::gradient_norm() const {
  double squares = 0;
  for (const Table& table : tables_) {
    if (!table.gradient || table.spec.kind != TableKind::kTrained) continue;
    squares += math::sum_of_squares(table.gradient.floats());
  }
  const auto norm = static_cast<float>(std::sqrt(squares));
  // A gradient without a norm cannot be clipped: it goes as it is, and the loss shows it.
  return std::isnan(norm) ? 0 : norm;
}

/// norm  of the whole gradient, where it is wanted
void ServedCache::send(Table& table, Clock clock, float norm) {
  TAUT_CHECK(table.gradient, "a table is published after its gradient was made");
  if (options_.norm == math::UpdateNorm::kRelative && table.spec.kind == TableKind::kTrained) {
    norm = math::relative_norm(table.gradient.floats(), host_view(table.front.as<float>()));
  }
  client_.push_and_read(table.spec.id, clock, table.gradient, host_view(table.back.as<float>()),
                        norm);
  // The client keeps the buffer until the shards have it; the next gradient gets another one.
  table.gradient = Buffer();
}

Result<Clock> ServedCache::snapshot(TableId table, std::span<float> into) {
  TAUT_TRY(const ReadResult read, client_.snapshot(table, into, options_.wait));
  return read.version;
}

Result<std::unique_ptr<ParameterCache>> open_served_cache(Client& client, Backend& backend,
                                                          std::vector<TableSpec> tables,
                                                          const ServedCache::Options& options) {
  if (!backend.shares_host_memory()) {
    TAUT_TRY(auto cache, DeviceCache::open(client, backend, std::move(tables), options));
    return std::unique_ptr<ParameterCache>(std::move(cache));
  }
  TAUT_TRY(auto cache, ServedCache::open(client, backend, std::move(tables), options));
  return std::unique_ptr<ParameterCache>(std::move(cache));
}

}  // namespace taut
