#include "worker/cache/group_cache.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/check.hpp"
#include "common/math/averaging.hpp"
#include "worker/cache/averaging_cache.hpp"

namespace taut {
namespace {

// Between two checks for other work.
constexpr Duration kStep = std::chrono::milliseconds(20);
// Of a rule, in a checkpoint: more than any job makes.
constexpr std::int64_t kMaxApplications = std::int64_t{1} << 40U;

}  // namespace

Result<std::unique_ptr<GroupCache>> GroupCache::open(Client& client, Backend& backend,
                                                     const std::vector<TableSpec>& tables,
                                                     Options options, collective::RankEndpoint rank,
                                                     collective::RankBoard& board) {
  TAUT_TRY(client.open(specs_of_shared(tables), options.wait));
  std::unique_ptr<GroupCache> cache(
      new GroupCache(client, backend, tables, std::move(options), std::move(rank), board));
  for (Table& table : cache->tables_) {
    table.pending_read = table.spec.kind == TableKind::kFrozen ? Clock(0) : cache->options_.start;
    client.read(table.spec.id, *table.pending_read, table.shared.as<float>());
  }
  return cache;
}

GroupCache::GroupCache(Client& client, Backend& backend, const std::vector<TableSpec>& tables,
                       Options options, collective::RankEndpoint rank, collective::RankBoard& board)
    : client_(client),
      backend_(backend),
      options_(std::move(options)),
      local_(backend, tables, {.rule = options_.rule}),
      own_stream_(backend.make_stream()),
      compute_(own_stream_.get()),
      board_(board),
      rank_(std::move(rank)),
      standing_{.next = options_.start, .state_from = options_.start} {
  if (!backend.shares_host_memory() && !options_.group.graph) staged_.emplace(backend);
  for (const TableSpec& spec : tables) {
    const std::size_t index = tables_.size();
    tables_.push_back({spec, backend.allocate_host(Bytes(spec.count() * sizeof(float))), {}});
    if (spec.kind == TableKind::kFrozen) continue;
    summed_.push_back(index);
    if (staged_) staged_->add(spec.count());
    arrays_.push_back({spec.id, std::nullopt});
    const int states = spec.kind == TableKind::kTrained ? options_.rule.state_count() : 0;
    for (int i = 0; i < states; ++i) arrays_.push_back({spec.id, static_cast<std::size_t>(i)});
  }
  collective::ReplicaValues& values = *this;
  group_.emplace(values, board, *rank_.endpoint, options_.group);
}

std::vector<std::size_t> GroupCache::gradient_sizes() const {
  std::vector<std::size_t> sizes;
  sizes.reserve(summed_.size());
  for (const std::size_t table : summed_) sizes.push_back(tables_[table].spec.count());
  return sizes;
}

void GroupCache::compute_on(std::size_t replica, Stream& stream) {
  local_.compute_on(replica, stream);
  compute_ = &stream;
}

void GroupCache::read_gradient(std::size_t table, std::span<float> into) {
  const auto staged = staged_ ? staged_->gradient(table) : std::span<const float>();
  if (!staged.empty()) {
    std::ranges::copy(staged, into.begin());
    return;
  }
  local_.read_gradient(0, tables_[summed_[table]].spec.id, into);
}

void GroupCache::write_gradient(std::size_t table, std::span<const float> mean) {
  local_.write_gradient(0, tables_[summed_[table]].spec.id, mean);
}

/// Running statistics are replaced by their update, so theirs is their current value.
void GroupCache::write_no_gradient(std::size_t index) {
  const TableSpec& table = tables_[summed_[index]].spec;
  gradient_.assign(table.count(), 0.0F);
  if (table.kind == TableKind::kAveraged) local_.read(table.id, gradient_);
  local_.write_gradient(0, table.id, gradient_);
}

void GroupCache::read_values(std::size_t table, std::span<float> into) {
  local_.read(tables_[summed_[table]].spec.id, into);
}

/// Running statistics are replaced by their update, so that becomes the average plus the worker's
/// own change.
void GroupCache::write_mixed(std::size_t index, std::span<const float> before,
                             std::span<const float> mixed) {
  const TableSpec& table = tables_[summed_[index]].spec;
  if (table.kind != TableKind::kAveraged || !group_->computes(standing_.next)) {
    local_.write(table.id, mixed);
    return;
  }
  gradient_.resize(table.count());
  local_.read_gradient(0, table.id, gradient_);
  for (std::size_t i = 0; i < gradient_.size(); ++i) gradient_[i] += mixed[i] - before[i];
  local_.write_gradient(0, table.id, gradient_);
}

std::vector<std::size_t> GroupCache::array_sizes() const {
  std::vector<std::size_t> sizes;
  sizes.reserve(arrays_.size());
  for (const Array& array : arrays_) sizes.push_back(tables_[array.table.value()].spec.count());
  return sizes;
}

void GroupCache::read_array(std::size_t array, std::span<float> into) {
  const auto& [table, state] = arrays_[array];
  if (state) {
    local_.read_state(table, *state, into);
  } else {
    local_.read(table, into);
  }
}

void GroupCache::write_array(std::size_t array, std::span<const float> values) {
  const auto& [table, state] = arrays_[array];
  if (state) {
    local_.write_state(table, *state, values);
  } else {
    local_.write(table, values);
  }
}

/// Waits for a table's read, for at most kStep; returns whether it is complete.
Result<bool> GroupCache::await_read(Table& table) {
  if (!table.pending_read) return true;
  TAUT_TRY(const auto read, client_.wait(table.spec.id, *table.pending_read, options_.wait, kStep));
  if (read) table.pending_read.reset();
  return read.has_value();
}

Result<void> GroupCache::await_reads() {
  for (Table& table : tables_) {
    while (true) {
      TAUT_TRY(const bool is_there, await_read(table));
      if (is_there) break;
    }
  }
  return ok();
}

/// Starts from the shared parameters.
Result<void> GroupCache::begin() {
  TAUT_TRY(await_reads());
  for (const Table& table : tables_) local_.write(table.spec.id, table.shared.as<float>());
  return ok();
}

Result<Clock> GroupCache::begin_clock(Clock clock) {
  TAUT_TRY(complete());
  if (!has_joined_) {
    for (Table& table : tables_) {
      if (table.spec.kind != TableKind::kFrozen) continue;
      while (table.pending_read) {
        TAUT_TRY(await_read(table));
      }
      local_.write(table.spec.id, table.shared.as<float>());
    }
    // The others wait for this rank from now on.
    board_.set_place(rank_.place);
    TAUT_TRY(standing_, group_->join(standing_));
    group_->set_values();
    has_joined_ = true;
    TAUT_TRY(meet());
  }
  while (standing_.next < options_.start) {
    TAUT_TRY(train_clock());
  }
  group_->begin_clock();
  return std::max(clock, standing_.next);
}

Result<DeviceSpan<const float>> GroupCache::acquire(std::size_t replica, TableId table,
                                                    Clock clock) {
  return local_.acquire(replica, table, clock);
}

DeviceSpan<float> GroupCache::gradient(std::size_t replica, TableId table) {
  TAUT_CHECK(replica == 0, "workers that sum among themselves have one replica");
  return local_.gradient(replica, table);
}

void GroupCache::publish(std::size_t replica, TableId table, Clock /*clock*/) {
  if (tables_[table.value()].spec.kind == TableKind::kFrozen) return;
  const auto place = std::ranges::lower_bound(summed_, static_cast<std::size_t>(table.value()));
  const auto index = static_cast<std::size_t>(place - summed_.begin());
  if (staged_) {
    staged_->copy(index, local_.gradient(replica, table), *compute_);
  } else if (backend_.shares_host_memory() && !backend_.in_dry_run()) {
    group_->publish(index);
  }
}

/// The rest of it waits for others, and may fail: see complete().
void GroupCache::finish_clock(std::size_t replica, Clock clock) {
  if (backend_.in_dry_run()) {
    local_.finish_clock(replica, clock);
    return;
  }
  is_complete_ = false;
}

Result<void> GroupCache::complete() {
  if (is_complete_) return ok();
  TAUT_TRY(train_clock());
  is_complete_ = true;
  return ok();
}

/// Exchanges and applies the next clock, even one to which this worker adds nothing.
Result<void> GroupCache::train_clock() {
  const Clock clock = standing_.next;
  // Sums start while a device computes the rest of backward.
  while (const auto copied = staged_ ? staged_->await_next() : std::nullopt) {
    group_->publish(*copied);
  }
  TAUT_TRY(const bool is_exchanged, group_->exchange(standing_));
  if (staged_) staged_->forget();
  if (is_exchanged) {
    // The others' sum of gradients exists even if this worker computes none.
    const bool has_gradient = !options_.group.graph || group_->computes(clock);
    if (has_gradient) {
      local_.begin_state(standing_.state_from);
      local_.finish_clock(0, clock);
    } else {
      // The rule was not applied, so the count of its applications stays.
      standing_.state_from = standing_.state_from.next();
    }
    group_->set_values();
    standing_.next = clock.next();
    standing_.has_met = !options_.schedule.pushes_at(clock);
  }
  return meet();
}

/// Holds the meeting at the end of the previous clock, if it has one that is not over. Meanwhile
/// others may wait for this worker in a new group, which may give it the meeting's result.
Result<void> GroupCache::meet() {
  while (!standing_.has_met) {
    const Clock clock = standing_.next - 1;
    const auto& stops = options_.group.stops;
    if (group_->computes(clock)) {
      if (pushed_ < clock) {
        for (const std::size_t table : summed_) {
          TAUT_TRY(push(tables_[table], clock));
        }
        pushed_ = clock;
      }
      bool is_there = true;
      for (const std::size_t table : summed_) {
        TAUT_TRY(is_there, await_read(tables_[table]));
        if (!is_there) break;
      }
      if (!is_there) {
        if (stops && stops()) {
          return make_error(ErrorCode::kClosed, "stopped while workers met at the servers");
        }
        if (group_->has_news()) {
          TAUT_TRY(standing_, group_->join(standing_));
        }
        continue;
      }
      take_shared();
    }
    TAUT_TRY(group_->spread_meeting(standing_, clock));
  }
  return ok();
}

/// Continues from a meeting's result.
void GroupCache::take_shared() {
  double distance = 0;
  for (const std::size_t table : summed_) {
    if (options_.group.graph) distance += squared_distance(tables_[table]);
    local_.write(tables_[table].spec.id, tables_[table].shared.as<float>());
  }
  if (options_.group.graph) from_mean_ = distance;
  group_->set_values();
}

/// From this worker's values of a table to the shared ones; 0 if the table is not trained.
double GroupCache::squared_distance(Table& table) {
  if (table.spec.kind != TableKind::kTrained) return 0;
  own_.resize(table.spec.count());
  local_.read(table.spec.id, own_);
  const std::span<const float> shared = table.shared.as<float>();
  double squares = 0;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const double apart = static_cast<double>(own_[i]) - static_cast<double>(shared[i]);
    squares += apart * apart;
  }
  return squares;
}

Result<void> GroupCache::push(Table& table, Clock clock) {
  // The change since the last meeting is pushed, so that meeting's values must have arrived.
  while (true) {
    TAUT_TRY(const bool is_there, await_read(table));
    if (is_there) break;
  }
  Buffer update = client_.gradient_buffer(table.spec.id);
  own_.resize(table.spec.count());
  local_.read(table.spec.id, own_);
  if (table.spec.kind == TableKind::kAveraged) {
    std::ranges::copy(own_, update.floats().begin());
  } else {
    math::periodic_update(own_, table.shared.as<float>(), update.floats());
  }
  client_.push_and_read(table.spec.id, clock, update, table.shared.as<float>());
  table.pending_read = clock.next();
  return ok();
}

Result<Clock> GroupCache::snapshot(TableId table, std::span<float> into) {
  TAUT_TRY(complete());
  local_.read(table, into);
  return standing_.next;
}

Result<void> GroupCache::flush(Duration wait) {
  TAUT_TRY(complete());
  group_->leave();
  return client_.flush(wait);
}

/// For each table that is not frozen: its values and the rule's arrays. Then, if the rule has any,
/// how often it was applied to them, which a float32 represents for as long as it matters.
std::vector<std::vector<float>> GroupCache::own_state(Clock /*clock*/) {
  std::vector<std::vector<float>> own;
  // A failure here recurs where it can be returned.
  if (!complete()) return own;
  const std::vector<std::size_t> sizes = array_sizes();
  for (std::size_t array = 0; array < sizes.size(); ++array) {
    read_array(array, own.emplace_back(sizes[array]));
  }
  if (options_.rule.state_count() > 0) {
    own.push_back({static_cast<float>(standing_.next - standing_.state_from)});
  }
  return own;
}

bool GroupCache::restore(std::vector<std::vector<float>> own) {
  const std::vector<std::size_t> sizes = array_sizes();
  // Checkpoints of earlier builds lack the count: the rule was applied at each clock.
  Clock state_from(0);
  if (own.size() == sizes.size() + 1 && own.back().size() == 1) {
    const float applied = own.back()[0];
    // It may be damaged. A count above this clock is valid: without a common clock a worker that
    // joins keeps its clock, and takes the state of one that is further.
    if (!(applied >= 0 && applied <= static_cast<float>(kMaxApplications))) return false;
    state_from = standing_.next - static_cast<std::int64_t>(applied);
    own.pop_back();
  }
  if (!std::ranges::equal(own, sizes, {}, [](const auto& one) { return one.size(); })) return false;
  for (std::size_t array = 0; array < own.size(); ++array) write_array(array, own[array]);
  standing_.is_fresh = false;
  standing_.state_from = state_from;
  return true;
}

Disagreement GroupCache::disagreement() const {
  return {from_mean_, group_->distance()};
}

Client::Traffic GroupCache::traffic() const {
  Client::Traffic traffic = client_.traffic();
  traffic.pushed += group_->traffic().sent;
  return traffic;
}

}  // namespace taut
