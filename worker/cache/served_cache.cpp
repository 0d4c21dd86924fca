#include "worker/cache/served_cache.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "worker/cache/device_store.hpp"
#include "worker/cache/host_store.hpp"

namespace taut {
namespace {

/// The clock of a dry run's values.
constexpr Clock kDryRun{-1};

}  // namespace

ServedCache::ServedCache(Client& client, Backend& backend, std::vector<TableSpec> tables,
                         const Options& options, std::unique_ptr<ValueStore> store)
    : client_(client), backend_(backend), options_(options), store_(std::move(store)) {
  for (TableSpec& spec : tables) {
    Table& table = tables_.emplace_back();
    table.spec = std::move(spec);
    if (!table.spec.rows) continue;
    const auto batch_rows = options.batch_rows.find(table.spec.id);
    TAUT_CHECK(batch_rows != options.batch_rows.end(), "how many rows a batch names is known");
    table.rows = std::make_unique<ServedRows>(client, backend, table.spec, batch_rows->second);
  }
}

ServedCache::~ServedCache() {
  store_->stop();
  client_.close();
}

Result<std::unique_ptr<ServedCache>> ServedCache::open(Client& client, Backend& backend,
                                                       std::vector<TableSpec> tables,
                                                       const Options& options) {
  std::unique_ptr<ValueStore> store;
  if (backend.shares_host_memory()) {
    store = std::make_unique<HostStore>(client, backend, tables, options);
  } else {
    store = std::make_unique<DeviceStore>(client, backend, tables, options);
  }
  return open(client, backend, std::move(tables), options, std::move(store));
}

Result<std::unique_ptr<ServedCache>> ServedCache::open(Client& client, Backend& backend,
                                                       std::vector<TableSpec> tables,
                                                       const Options& options,
                                                       std::unique_ptr<ValueStore> store) {
  TAUT_TRY(client.open(tables, options.wait));
  std::unique_ptr<ServedCache> cache(
      new ServedCache(client, backend, std::move(tables), options, std::move(store)));
  cache->store_->start();
  for (const Table& table : cache->tables_) {
    if (table.rows) continue;
    client.read(table.spec.id, clock_of(table, options.start), cache->store_->fresh(table.spec.id));
  }
  for (Table& table : cache->tables_) {
    if (table.spec.kind != TableKind::kFrozen) continue;
    TAUT_TRY(cache->bring(table, Clock(0)));
  }
  return cache;
}

void ServedCache::compute_on(std::size_t /*replica*/, Stream& stream) {
  store_->compute_on(stream);
  for (const Table& table : tables_) {
    if (table.rows) table.rows->compute_on(stream);
  }
}

Result<void> ServedCache::name_rows(std::size_t /*replica*/, TableId id, Clock clock,
                                    std::span<const std::uint64_t> rows) {
  const Table& table = tables_[id.value()];
  TAUT_CHECK(table.rows != nullptr, "a table by rows");
  return table.rows->name(clock, rows);
}

/// A frozen table is never pushed: its only clock is 0.
Clock ServedCache::clock_of(const Table& table, Clock clock) {
  return table.spec.kind == TableKind::kFrozen ? Clock(0) : clock;
}

/// Waits for all tables at once: only together do they show how far the other workers are.
Result<Clock> ServedCache::begin_clock(Clock clock) {
  if (!options_.catches_up) return clock;
  Clock reached = Clock::never();
  for (Table& table : tables_) {
    TAUT_TRY(await(table, clock));
    if (table.spec.kind != TableKind::kFrozen) reached = std::min(reached, table.version);
  }
  if (reached == Clock::never() || reached <= clock) return clock;
  for (Table& table : tables_) {
    if (table.spec.kind != TableKind::kFrozen) table.arrived = reached;
  }
  return reached;
}

/// Waits until the client has written a table's values at a clock to the store.
Result<void> ServedCache::await(Table& table, Clock clock) {
  TAUT_TRY(store_->check());
  const Clock required = clock_of(table, clock);
  if (table.arrived == required) return ok();
  const auto read = client_.wait(table.spec.id, required, options_.wait);
  TAUT_TRY(store_->check());
  if (!read) return read.error();
  table.arrived = required;
  table.version = read.value().version;
  return ok();
}

/// Waits for a table's values at a clock, and puts them in front. In a dry run they are whatever
/// the memory has. Rows are brought when they are acquired.
Result<void> ServedCache::bring(Table& table, Clock clock) {
  if (table.rows) return ok();
  const bool dry_run = backend_.in_dry_run();
  const Clock required = clock_of(table, dry_run ? kDryRun : clock);
  if (table.front == required) return ok();
  if (!dry_run) {
    TAUT_TRY(await(table, clock));
  }
  store_->bring(table.spec.id);
  table.front = required;
  return ok();
}

Result<DeviceSpan<const float>> ServedCache::acquire(std::size_t /*replica*/, TableId id,
                                                     Clock clock) {
  if (!options_.overlap) {
    for (Table& table : tables_) {
      TAUT_TRY(bring(table, clock));
    }
  }
  Table& table = tables_[id.value()];
  if (table.rows) {
    TAUT_TRY(table.rows->bring(clock, options_.wait));
    return table.rows->front();
  }
  TAUT_TRY(bring(table, clock));
  return store_->front(id);
}

DeviceSpan<float> ServedCache::gradient(std::size_t replica, TableId id) {
  TAUT_CHECK(replica == 0, "a served cache has one replica");
  const Table& table = tables_[id.value()];
  return table.rows ? table.rows->gradient() : store_->gradient(id);
}

void ServedCache::publish(std::size_t /*replica*/, TableId id, Clock clock) {
  const Table& table = tables_[id.value()];
  if (table.rows) {
    table.rows->publish(clock);
  } else {
    store_->publish(id, clock);
  }
}

void ServedCache::finish_clock(std::size_t /*replica*/, Clock clock) {
  store_->finish_clock(clock);
}

Result<Clock> ServedCache::snapshot(TableId table, std::span<float> into) {
  TAUT_TRY(const ReadResult read, client_.snapshot(table, into, options_.wait));
  return read.version;
}

Result<Clock> ServedCache::snapshot_rows(TableId table, std::span<const std::uint64_t> rows,
                                         std::span<float> into) {
  TAUT_TRY(const ReadResult read, client_.snapshot_rows(table, rows, into, options_.wait));
  return read.version;
}

Result<void> ServedCache::flush(Duration wait) {
  TAUT_TRY(store_->drain(wait));
  return client_.flush(wait);
}

}  // namespace taut
