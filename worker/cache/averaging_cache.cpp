#include "worker/cache/averaging_cache.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "common/math/averaging.hpp"
#include "common/ssp/fragments.hpp"

namespace taut {

std::vector<TableSpec> specs_of_shared(std::vector<TableSpec> tables) {
  for (TableSpec& spec : tables) {
    spec.lr_mult = 1;
    spec.decay_mult = 0;
  }
  return tables;
}

Result<std::unique_ptr<AveragingCache>> AveragingCache::open(Client& client, Backend& backend,
                                                             const std::vector<TableSpec>& tables,
                                                             const Options& options) {
  TAUT_TRY(client.open(specs_of_shared(tables), options.wait));
  std::unique_ptr<AveragingCache> cache(new AveragingCache(client, backend, tables, options));
  for (Table& table : cache->tables_) {
    table.pending_read = table.spec.kind == TableKind::kFrozen ? Clock(0) : options.start;
    client.read(table.spec.id, *table.pending_read, table.shared.as<float>());
  }
  return cache;
}

AveragingCache::AveragingCache(Client& client, Backend& backend,
                               const std::vector<TableSpec>& tables, const Options& options)
    : client_(client),
      backend_(backend),
      options_(options),
      local_(backend, tables, {.rule = options.rule, .budget = options.budget}) {
  const auto fragments = fragments_of(tables, options.schedule.fragments);
  std::size_t largest = 0;
  for (const TableSpec& spec : tables) {
    const Bytes bytes(spec.count() * sizeof(float));
    tables_.push_back({spec,
                       options.schedule.of_fragment(fragments[spec.id.value()]),
                       backend.allocate_host(bytes),
                       options.start,
                       {},
                       {},
                       {}});
    largest = std::max(largest, spec.count());
  }
  own_ = backend.allocate_host(Bytes(largest * sizeof(float)));
  local_.begin_state(options.start);
}

/// Copies of values to the device are all made before the clock's cycle of calls starts: only some
/// clocks have them.
Result<Clock> AveragingCache::begin_clock(Clock clock) {
  if (backend_.shares_host_memory()) return clock;
  for (Table& table : tables_) {
    TAUT_TRY(settle(table));
  }
  return clock;
}

Result<DeviceSpan<const float>> AveragingCache::acquire(std::size_t replica, TableId table,
                                                        Clock clock) {
  if (!backend_.in_dry_run()) {
    TAUT_TRY(settle(tables_[table.value()]));
  }
  return local_.acquire(replica, table, clock);
}

/// Applies what was read, and sends the push that waited for it.
Result<void> AveragingCache::settle(Table& table) {
  if (table.pending_read) {
    TAUT_TRY(client_.wait(table.spec.id, *table.pending_read, options_.wait));
    table.pending_read.reset();
    if (!table.due) begin_from_shared(table);
  }
  if (const auto clock = std::exchange(table.due, std::nullopt)) {
    client_.push(table.spec.id, *clock, update_of(table));
    table.next = clock->next();
  }
  return ok();
}

/// Continues from the shared values; after a resume, adds the change that it had trained between
/// the last meeting and the checkpoint.
void AveragingCache::begin_from_shared(Table& table) {
  const std::span<const float> shared = table.shared.as<float>();
  const auto between = std::exchange(table.between, std::nullopt);
  if (!between) {
    local_.write(table.spec.id, shared);
    return;
  }
  std::vector<float> own = between->own;
  // If the shared values are the same, as in BSP, its own are restored bit for bit.
  if (!std::ranges::equal(shared, between->shared)) {
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += shared[i] - between->shared[i];
  }
  local_.write(table.spec.id, own);
}

/// For each table that is not frozen: the rule's arrays, then its values and the shared ones, both
/// empty if it was exchanged just before.
std::vector<std::vector<float>> AveragingCache::own_state(Clock clock) {
  std::vector<std::vector<float>> own;
  if (options_.exchange != Exchange::kPeriodic) return own;
  for (Table& table : tables_) {
    if (table.spec.kind == TableKind::kFrozen) continue;
    for (auto& one : local_.read_state(table.spec.id)) own.push_back(std::move(one));
    own.resize(own.size() + 2);
    if (table.pending_read || clock == options_.start || table.schedule.pushes_at(clock - 1))
      continue;
    std::vector<float>& values = own[own.size() - 2];
    values.resize(table.spec.count());
    local_.read(table.spec.id, values);
    const std::span<const float> last = table.shared.as<float>();
    own.back().assign(last.begin(), last.end());
  }
  return own;
}

bool AveragingCache::restore(std::vector<std::vector<float>> own) {
  const auto arrays_of = [this](const Table& table) {
    const bool trained = table.spec.kind == TableKind::kTrained;
    return trained ? static_cast<std::size_t>(options_.rule.state_count()) : 0;
  };
  std::size_t at = 0;
  for (const Table& table : tables_) {
    if (table.spec.kind == TableKind::kFrozen) continue;
    const std::size_t count = table.spec.count();
    const std::size_t arrays = arrays_of(table);
    if (own.size() < at + arrays + 2) return false;
    for (std::size_t i = 0; i < arrays + 2; ++i, ++at) {
      const bool may_be_empty = i >= arrays;
      if (own[at].size() != count && !(may_be_empty && own[at].empty())) return false;
    }
    if (own[at - 2].size() != own[at - 1].size()) return false;
  }
  if (own.size() != at) return false;
  // Even if this share's worker had joined late: the correction is large only in the first clocks
  // after that, which are over.
  local_.begin_state(Clock(0));
  at = 0;
  for (Table& table : tables_) {
    if (table.spec.kind == TableKind::kFrozen) continue;
    std::vector<std::vector<float>> state;
    for (std::size_t i = arrays_of(table); i > 0; --i) state.push_back(std::move(own[at++]));
    local_.write_state(table.spec.id, state);
    if (!own[at].empty()) {
      table.between = Table::Between{std::move(own[at]), std::move(own[at + 1])};
    }
    at += 2;
  }
  return true;
}

Buffer AveragingCache::update_of(Table& table) {
  Buffer update = client_.gradient_buffer(table.spec.id);
  if (table.spec.kind == TableKind::kAveraged) {
    local_.read(table.spec.id, update.floats());
    return update;
  }
  const std::span<float> own = own_.as<float>().first(table.spec.count());
  const std::span<const float> shared = table.shared.as<float>();
  local_.read(table.spec.id, own);
  if (options_.exchange == Exchange::kElastic) {
    math::elastic_update(options_.moving_rate, own, shared, update.floats());
    local_.write(table.spec.id, own);
  } else {
    math::periodic_update(own, shared, update.floats());
  }
  return update;
}

DeviceSpan<float> AveragingCache::gradient(std::size_t replica, TableId table) {
  TAUT_CHECK(replica == 0, "an averaging cache has one replica");
  return local_.gradient(replica, table);
}

void AveragingCache::publish(std::size_t /*replica*/, TableId /*table*/, Clock /*clock*/) {}

void AveragingCache::finish_clock(std::size_t replica, Clock clock) {
  local_.finish_clock(replica, clock);
  if (backend_.in_dry_run()) return;
  for (Table& table : tables_) {
    const bool meets = table.spec.kind != TableKind::kFrozen && table.schedule.pushes_at(clock);
    if (meets) meet(table, clock);
  }
}

void AveragingCache::meet(Table& table, Clock clock) {
  if (options_.exchange == Exchange::kPeriodic) {
    client_.push_and_read(table.spec.id, clock, update_of(table), table.shared.as<float>());
    table.pending_read = clock.next();
    return;
  }
  table.due = clock;
  // The first read's values are still current; later ones are read again, since the shared values
  // change while this worker trains.
  if (table.next == options_.start) return;
  table.pending_read = table.next;
  client_.read(table.spec.id, table.next, table.shared.as<float>());
}

/// Waits for this worker's own meeting: what is tested or saved after it includes its result.
Result<Clock> AveragingCache::snapshot(TableId table, std::span<float> into) {
  if (options_.exchange == Exchange::kPeriodic) {
    TAUT_TRY(settle(tables_[table.value()]));
  }
  TAUT_TRY(const ReadResult read, client_.snapshot(table, into, options_.wait));
  return read.version;
}

Result<void> AveragingCache::flush(Duration wait) {
  for (Table& table : tables_) {
    if (!table.due) continue;
    TAUT_TRY(settle(table));
  }
  return client_.flush(wait);
}

}  // namespace taut
