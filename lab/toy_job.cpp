#include "lab/toy_job.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "lab/random.hpp"
#include "lab/toy_compression.hpp"
#include "lab/toy_policies.hpp"

namespace taut::sim {

std::int64_t interval_of(const pb::Consistency& policies, bool is_seeded) {
  if (policies.has_elastic_averaging()) return policies.elastic_averaging().interval();
  if (!policies.has_periodic_averaging()) return 1;
  const pb::PeriodicAveraging& averaging = policies.periodic_averaging();
  return is_seeded ? averaging.fragments() : averaging.interval();
}

std::int64_t offset_of(const pb::Consistency& policies, bool is_seeded, std::uint32_t table,
                       std::uint32_t tables) {
  const std::int64_t fragments = policies.periodic_averaging().fragments();
  // The fragment that contains the table's middle.
  const std::int64_t fragment = (2 * std::int64_t{table} + 1) * fragments / (2 * tables);
  return fragment * interval_of(policies, is_seeded) / fragments;
}

Clock ToyJob::next_push(Clock clock) const {
  Clock next = Clock::never();
  for (std::uint32_t i = 0; i < tables; ++i) {
    next = std::min(next, schedule_of(i).first_from(clock));
  }
  return next;
}

bool ToyJob::counts() const {
  return !mean && !balance && !weighs(policies) && keeps_counts(compression, clocks);
}

std::size_t ToyJob::slice_count() const {
  std::size_t count = std::size_t{tables} * slices;
  for (const ToyRows& table : rows) count += table.kept.buckets;
  return count;
}

std::vector<TableSpec> toy_tables(const ToyJob& job) {
  std::vector<TableSpec> tables;
  for (std::uint32_t i = 0; i < job.tables; ++i) {
    TableSpec table;
    table.id = TableId(i);
    table.name = "t" + std::to_string(i);
    table.shape = {job.slices, kSliceElements};
    if (push_of(job.compression).scheme() == pb::PushCompression::POWER_SGD) {
      table.shape = {std::int64_t{job.slices} * kToyRows, kSliceElements / kToyRows};
    }
    tables.push_back(table);
  }
  for (std::uint32_t i = job.tables; i < job.table_count(); ++i) {
    tables.push_back(toy_row_table(job.rows[i - job.tables], TableId(i)));
  }
  return tables;
}

pb::Job toy_definition(const ToyJob& toy) {
  pb::Job job;
  job.set_name("toy");
  job.set_workers(toy.workers);
  job.set_min_workers(toy.min_workers);
  job.set_reduction(toy.mean ? pb::Job::MEAN : pb::Job::SUM);
  if (toy.is_seeded) {
    job.set_external_members(true);
  } else {
    job.mutable_net_param()->set_name("toy");
  }
  if (toy.balance) {
    job.set_balance(true);
    pb::LayerParameter& layer = *job.mutable_net_param()->add_layer();
    layer.set_name("data");
    layer.set_type("Data");
    layer.mutable_data_param()->set_batch_size(kToyBatch);
  }
  job.mutable_solver_param()->set_base_lr(1);
  if (workers_apply_momentum(toy.compression)) {
    job.mutable_solver_param()->set_momentum(kToyMomentum);
  }
  job.mutable_solver_param()->set_max_iter(static_cast<std::int32_t>(toy.clocks));
  if (toy.checkpoint_every > 0) {
    job.mutable_checkpoint()->set_every(static_cast<std::uint32_t>(toy.checkpoint_every));
  }
  if (toy.follower_slack >= 0) {
    job.mutable_followers()->set_slack(static_cast<std::uint32_t>(toy.follower_slack));
  }
  if (toy.compression.push_size() + toy.compression.pull_size() > 0) {
    *job.mutable_compression() = toy.compression;
  }
  pb::Consistency& consistency = *job.mutable_consistency();
  consistency = toy.policies;
  if (toy.slack.is_unbounded()) {
    consistency.set_mode(pb::Consistency::ASYNC);
  } else if (toy.slack == Slack(0)) {
    consistency.set_mode(pb::Consistency::BSP);
  } else {
    consistency.set_mode(pb::Consistency::SSP);
    consistency.set_slack(static_cast<std::uint32_t>(toy.slack.clocks()));
  }
  if (consistency.has_dynamic_slack()) {
    consistency.clear_slack();
    consistency.mutable_dynamic_slack()->set_least(static_cast<std::uint32_t>(toy.slack.clocks()));
  }
  return job;
}

namespace {

std::uint64_t place_of(TableId table, SliceId slice, WorkerId worker) {
  return (std::uint64_t{table.value()} << 48U) ^ (std::uint64_t{slice.value()} << 40U) ^
         (std::uint64_t{worker.value()} << 32U);
}

/// Numbers of many magnitudes, from kMixed on.
void mix(std::uint64_t where, std::span<float> out) {
  Random random(Random::mix(where));
  for (std::uint32_t i = kMixed; i < kSliceElements; ++i) {
    const std::uint64_t bits = random.next();
    const auto mantissa =
        static_cast<float>(static_cast<std::int32_t>(bits & 0xffffffU) - 0x800000);
    out[i] = std::ldexp(mantissa, -static_cast<int>(20 + (bits >> 40U) % 12));
  }
}

}  // namespace

void toy_update(TableId table, SliceId slice, WorkerId worker, Clock clock, std::span<float> out) {
  std::ranges::fill(out, 0.0F);
  out[2 * worker.value()] = 1;
  out[2 * worker.value() + 1] = static_cast<float>(clock.value() + 1);
  mix(place_of(table, slice, worker) ^ static_cast<std::uint64_t>(clock.value()), out);
}

void toy_seed(TableId table, SliceId slice, WorkerId worker, std::span<float> out) {
  std::ranges::fill(out, 0.0F);
  constexpr std::uint64_t kApart = 1ULL << 31U;  // no clock is this large
  mix(place_of(table, slice, worker) ^ kApart, out);
}

}  // namespace taut::sim
