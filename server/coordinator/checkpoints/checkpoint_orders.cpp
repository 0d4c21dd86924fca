#include "server/coordinator/checkpoints/checkpoint_orders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "common/coding/reed_solomon.hpp"
#include "proto/config/experiment_check.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/settle_policies.hpp"
#include "server/coordinator/checkpoints/checkpoint_settings.hpp"
#include "server/coordinator/checkpoints/kept_checkpoints.hpp"
#include "server/coordinator/checkpoints/left_parts.hpp"
#include "server/coordinator/checkpoints/written_parts.hpp"
#include "server/coordinator/epoch_change.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

static_assert(kMaxDataParts == ReedSolomon::kMaxData && kMaxParityParts == ReedSolomon::kMaxParity);

// If this many consecutive orders were too late, something else is wrong.
constexpr std::uint32_t kMaxMisses = 12;
// A stripe of 4 + 2 of these fits in a core's second-level cache while it is encoded.
constexpr std::uint64_t kBlockBytes = 256ULL << 10U;

struct Place {
  fs::path folder;
  std::string name;
};

/// The place of a job's checkpoints, as Caffe's users expect from a prefix: FOLDER/NAME_iter_K.
Place place_of(const pb::StoredJob& stored) {
  const pb::Job& definition = stored.definition();
  const fs::path prefix = definition.solver_param().snapshot_prefix();
  Place place{checkpoint_folder(definition), prefix.filename().string()};
  if (place.name.empty()) {
    place.name = definition.name();
    std::ranges::replace(place.name, '/', '_');
  }
  if (place.name.empty()) place.name = fmt::format("job{}", stored.job());
  return place;
}

std::string folder_of(const pb::StoredJob& stored, std::int64_t clock) {
  const Place place = place_of(stored);
  return (place.folder / fmt::format("{}_iter_{}", place.name, clock)).string();
}

std::int64_t interval(const pb::Job& definition) {
  if (definition.checkpoint().has_every()) return definition.checkpoint().every();
  return definition.solver_param().snapshot();
}

/// The clocks between two pushes: V takes only multiples of this, and the job's end.
std::int64_t interval_of_pushes(const pb::Job& definition) {
  const auto policies = to_policies(definition);
  return policies ? policies.value().schedule().interval : 1;
}

/// The clock at which a job is over; never() if it is not known yet. With external members it is
/// known once one has finished and the last one has left.
std::int64_t end_of(const JobRecord& job) {
  const Clock end = end_clock(job.stored().definition());
  if (end != Clock::never() || !job.has_finished_members()) return end.value();
  std::int64_t last = 0;
  for (const pb::StoredMember& member : job.stored().members()) {
    last = std::max(last, member.member().leave_clock());
  }
  return last;
}

/// Whether any order can ever be due.
bool orders_any(const pb::StoredJob& stored) {
  const pb::Job& definition = stored.definition();
  return stored.checkpoint_wanted() || definition.has_checkpoint() || interval(definition) > 0;
}

/// The clock of the next order; 0 if none is due.
/// lowest  an order below this clock would be too late
std::int64_t due_clock(const JobRecord& job, std::int64_t lowest) {
  const pb::StoredJob& stored = job.stored();
  const std::int64_t end = end_of(job);
  const std::int64_t from = stored.checkpointed_to();
  const std::int64_t every = interval(stored.definition());
  if (from >= end) return 0;
  const std::int64_t step = interval_of_pushes(stored.definition());
  const auto next_multiple = [](std::int64_t clock, std::int64_t of) {
    return (clock + of - 1) / of * of;
  };
  if (stored.checkpoint_wanted()) {
    return std::min(next_multiple(std::max(lowest, from + 1), step), end);
  }
  if (every <= 0 && !stored.definition().has_checkpoint()) return 0;
  if (every > 0) {
    const std::int64_t clock =
        next_multiple(next_multiple(std::max(from + 1, lowest), every), step);
    if (clock <= end) return clock;
  }
  const bool at_end = stored.definition().solver_param().snapshot_after_train();
  return at_end && end != Clock::never().value() ? end : 0;
}

const pb::CodedCheckpoints* coding_of(const pb::StoredJob& stored) {
  const pb::CheckpointOptions& options = stored.definition().checkpoint();
  return options.has_coded() ? &options.coded() : nullptr;
}

/// The servers that may have parts of a job's checkpoints; empty if its files are whole.
std::vector<pb::PartHolder> holders_of(const pb::StoredJob& stored) {
  std::vector<pb::PartHolder> holders;
  if (coding_of(stored) == nullptr) return holders;
  for (const pb::StoredServer& server : stored.servers()) {
    if (server.lost() || server.shard_addresses().empty()) continue;
    pb::PartHolder& holder = holders.emplace_back();
    holder.set_name(server.name());
    holder.set_address(server.shard_addresses(0));
  }
  return holders;
}

/// Why no coded checkpoint can be ordered; empty if one can, or if files are whole.
std::string too_few_servers(const pb::StoredJob& stored) {
  const pb::CodedCheckpoints* coded = coding_of(stored);
  const auto servers = static_cast<std::uint32_t>(holders_of(stored).size());
  if (coded == nullptr || losses_survived(*coded, servers) > 0) return "";
  const std::uint32_t parts = coded->data() + coded->parity();
  return fmt::format(
      "{} + {} parts on {} server{} would not survive the loss of one; it takes {} servers, or "
      "fewer data parts",
      coded->data(), coded->parity(), servers, servers == 1 ? "" : "s",
      (parts + coded->parity() - 1) / coded->parity());
}

/// Adds to an order where its parts go. Returns a note if they survive fewer losses than intended.
std::string place_parts(const pb::StoredJob& stored, pb::CheckpointOrder& order) {
  const pb::CodedCheckpoints* coded = coding_of(stored);
  if (coded == nullptr) return "";
  order.mutable_coding()->set_data(coded->data());
  order.mutable_coding()->set_parity(coded->parity());
  order.mutable_coding()->set_block_bytes(kBlockBytes);
  order.set_token(stored.token());
  for (pb::PartHolder& holder : holders_of(stored)) *order.add_holders() = std::move(holder);
  const auto servers = static_cast<std::uint32_t>(order.holders_size());
  const std::uint32_t survived = losses_survived(*coded, servers);
  if (survived >= coded->parity()) return "";
  return fmt::format(", in {} + {} parts on {} servers: it survives the loss of {}, not of {}",
                     coded->data(), coded->parity(), servers, survived, coded->parity());
}

void order(JobRecord& job, std::int64_t clock, Notes& notes) {
  pb::StoredJob& stored = job.change();
  pb::CheckpointOrder& order = *stored.mutable_checkpoint();
  stored.set_checkpoints_ordered(stored.checkpoints_ordered() + 1);
  order.set_number(stored.checkpoints_ordered());
  order.set_clock(clock);
  order.set_folder(fmt::format("{}{}{}", folder_of(stored, clock),
                               unfinished_mark(JobId(stored.job()), stored.token()),
                               order.number()));
  // Servers link to the base's files themselves; if it is gone by then, they write everything.
  const int kept = stored.checkpoints_size();
  if (stored.definition().checkpoint().incremental() && kept > 0) {
    order.set_base(stored.checkpoints(kept - 1).folder());
  }
  const std::string survives = place_parts(stored, order);
  job.finishes_checkpoint = false;
  job.revise();
  if (stored.saved_before() > 0) {
    stored.set_saved_before(clock);
    job.revise_workers();
  }
  for (int i = 0; i < stored.members_size(); ++i) {
    if (owes_checkpoint(job, i)) job.revise_worker(i);
  }
  notes.add(JobId(stored.job()),
            fmt::format("a checkpoint is ordered at clock {}{}", clock, survives));
}

std::string no_checkpoint_text(const std::string& refusal) {
  return "no checkpoint is written: " + refusal;
}

void order_next(JobRecord& job, std::int64_t lowest, Notes& notes) {
  const std::int64_t clock = due_clock(job, lowest);
  if (clock <= 0) {
    // Nothing is left to train, and everything trained was saved.
    if (job.stored().saved_before() > 0) job.change().set_checkpoint_wanted(false);
    return;
  }
  const std::string refusal = too_few_servers(job.stored());
  if (refusal.empty()) {
    order(job, clock, notes);
    return;
  }
  // Servers may join, so this is tried again whenever something changes.
  const std::string failure = no_checkpoint_text(refusal);
  if (job.stored().checkpoint_failure() == failure && !job.stored().checkpoint_wanted()) return;
  pb::StoredJob& stored = job.change();
  // A requested checkpoint, or the last one before a stop, is not waited for.
  stored.set_checkpoint_wanted(false);
  stored.set_checkpoint_failure(failure);
  notes.add(JobId(stored.job()), failure);
}

/// The lowest clock for an order. Its distance from the highest known clock grows with each order
/// that was too late. If workers are held, it is measured from the first clock that none has begun.
std::int64_t lowest_clock(const JobRecord& job) {
  const std::uint32_t misses = std::min(job.stored().checkpoint_misses(), kMaxMisses);
  const bool is_held = job.stored().saved_before() > 0 && job.working() > 0;
  const std::int64_t first = is_held ? job.first_unbegun() : first_free_clock(job);
  return first + (std::int64_t{1} << (2 * misses)) - 1;
}

/// Whether a stopping job's last checkpoint cannot be ordered yet: a worker may have begun clocks
/// that it has not reported, and may begin more.
bool waits_for_answers(const JobRecord& job) {
  return job.stored().saved_before() > 0 && !job.all_answer();
}

}  // namespace

std::string unfinished_mark(JobId job, std::uint64_t token) {
  if (token == 0) return fmt::format(".part-{}-", job.value());
  return fmt::format(".part-{}-{:016x}-", job.value(), token);
}

void withdraw_checkpoint(JobRecord& job, CheckpointTasks& tasks) {
  CheckpointTask drop;
  drop.kind = CheckpointTask::Kind::kDrop;
  drop.job = JobId(job.stored().job());
  drop.number = job.stored().checkpoint().number();
  drop.aside = job.stored().checkpoint().folder();
  drop.token = job.stored().token();
  leave_parts(job, drop.aside, drop.number);
  tasks.push_back(std::move(drop));
  pb::StoredJob& stored = job.change();
  stored.clear_checkpoint();
  if (stored.saved_before() > 1) {
    stored.set_saved_before(1);
    job.revise_workers();
  }
  job.finishes_checkpoint = false;
  job.revise();
}

namespace {

/// Whether the current checkpoint is the last one before a stop: one that was ordered before the
/// job was asked to stop is not.
bool is_last_before_stop(const pb::StoredJob& stored) {
  return stored.saved_before() == 0 || stored.saved_before() == stored.checkpoint().clock();
}

void give_up(JobRecord& job, const std::string& why, CheckpointTasks& tasks, Notes& notes) {
  const std::int64_t clock = job.stored().checkpoint().clock();
  notes.add(JobId(job.stored().job()),
            fmt::format("the checkpoint at clock {} is not written: {}; {}", clock, why,
                        job.is_active() && !job.stored().closing()
                            ? "training continues"
                            : "its incomplete files are never used"));
  const bool is_last = is_last_before_stop(job.stored());
  withdraw_checkpoint(job, tasks);
  pb::StoredJob& stored = job.change();
  stored.set_checkpointed_to(std::max(stored.checkpointed_to(), clock));
  stored.set_checkpoint_misses(0);
  stored.set_checkpoint_wanted(!is_last);
  stored.set_checkpoint_failure(
      fmt::format("the checkpoint at clock {} is not written: {}", clock, why));
}

void finish(JobRecord& job, CheckpointTasks& tasks) {
  const pb::StoredJob& stored = job.stored();
  CheckpointTask task;
  task.job = JobId(stored.job());
  task.number = stored.checkpoint().number();
  task.aside = stored.checkpoint().folder();
  task.folder = folder_of(stored, stored.checkpoint().clock());
  task.manifest = manifest_of(job);
  task.holders = holders_of(stored);
  tasks.push_back(std::move(task));
  job.finishes_checkpoint = true;
}

/// Whether the current order can no longer be completed because a server was lost since it was
/// given: one that had to keep parts, or, if the coordinator has restarted in between, one whose
/// shard may have moved.
bool misses_server(const JobRecord& job) {
  const pb::CheckpointOrder& order = job.stored().checkpoint();
  if (!order.has_coding() && order.number() != job.recovered_order) return false;
  return std::ranges::any_of(job.stored().servers(), [&](const pb::StoredServer& server) {
    return server.lost() && server.last_order() >= order.number();
  });
}

void conclude(JobRecord& job, Duration limit, TimePoint now, CheckpointTasks& tasks, Notes& notes) {
  // Without a finished member, the job waits for workers: one that joins advances V to the clock.
  if (job.working() > 0 || !job.has_finished_members()) {
    job.waits_for_checkpoint.reset();
  } else if (!job.waits_for_checkpoint) {
    job.waits_for_checkpoint = now;
  }
  if (job.finishes_checkpoint) return;
  if (misses_server(job)) {
    withdraw_checkpoint(job, tasks);
    return;
  }
  const PartsProgress parts = progress_of_parts(job);
  if (!parts.error.empty()) {
    give_up(job, parts.error, tasks, notes);
  } else if (parts.missed) {
    const std::uint32_t misses = job.stored().checkpoint_misses() + 1;
    if (misses >= kMaxMisses) {
      give_up(job, fmt::format("{} consecutive orders were too late", misses), tasks, notes);
      return;
    }
    notes.add(JobId(job.stored().job()),
              fmt::format("the order of a checkpoint at clock {} was too late",
                          job.stored().checkpoint().clock()));
    withdraw_checkpoint(job, tasks);
    job.change().set_checkpoint_misses(misses);
  } else if (parts.written) {
    finish(job, tasks);
  } else if (job.waits_for_checkpoint && now - *job.waits_for_checkpoint >= limit) {
    give_up(job, fmt::format("not all of it was written within {:g} s", seconds(limit)), tasks,
            notes);
    // No member is left to advance V to a later clock. External members may still join.
    const Clock end = end_clock(job.stored().definition());
    if (end != Clock::never()) job.change().set_checkpointed_to(end.value());
  }
}

}  // namespace

void order_first_checkpoint(JobRecord& job, Notes& notes) {
  order_next(job, 1, notes);
}

void advance_checkpoint(JobRecord& job, Duration limit, TimePoint now, CheckpointTasks& tasks,
                        Notes& notes) {
  const pb::StoredJob& stored = job.stored();
  remove_diverged(job, tasks, notes);
  remove_old(job, tasks, notes);
  if (stored.state() != pb::RUNNING || stored.closing()) {
    const bool under_way = stored.has_checkpoint() && !job.finishes_checkpoint;
    if (under_way) give_up(job, "the job has ended", tasks, notes);
    return;
  }
  // V will not reach this clock if the last member has finished before it.
  if (stored.has_checkpoint() && stored.checkpoint().clock() > end_of(job)) {
    withdraw_checkpoint(job, tasks);
  }
  if (stored.has_checkpoint()) conclude(job, limit, now, tasks, notes);
  if (stored.has_checkpoint() || !orders_any(stored) || waits_for_answers(job)) return;
  order_next(job, lowest_clock(job), notes);
}

namespace {

/// Why no checkpoint can be written now.
Error no_checkpoint(JobRecord& job, const std::string& refusal) {
  job.change().set_checkpoint_failure(no_checkpoint_text(refusal));
  return make_error(ErrorCode::kUnavailable, fmt::format("job {}: {}", job.stored().job(),
                                                         job.stored().checkpoint_failure()));
}

}  // namespace

Result<std::string> order_checkpoint_now(JobRecord& job, CheckpointTasks& tasks, Notes& notes) {
  const pb::StoredJob& stored = job.stored();
  if (stored.saved_before() > 0) {
    // An order before the workers have answered could be behind what they have trained.
    return fmt::format("job {}: it is being stopped, and its last checkpoint is written",
                       stored.job());
  }
  const std::int64_t soon = lowest_clock(job);
  // A distant order can be replaced; a near one already is what the user requests.
  if (stored.has_checkpoint() && !job.finishes_checkpoint && stored.checkpoint().clock() > soon) {
    withdraw_checkpoint(job, tasks);
  }
  const std::string refusal = stored.has_checkpoint() ? "" : too_few_servers(stored);
  if (!refusal.empty()) return no_checkpoint(job, refusal);
  job.change().clear_checkpoint_failure();
  if (!stored.has_checkpoint()) {
    job.change().set_checkpoint_wanted(true);
    order_next(job, soon, notes);
  }
  if (!stored.has_checkpoint()) {
    return fmt::format("job {}: its last checkpoint is written", stored.job());
  }
  return fmt::format("job {}: checkpoint at clock {}: {}", stored.job(),
                     stored.checkpoint().clock(), folder_of(stored, stored.checkpoint().clock()));
}

Result<std::string> order_last_checkpoint(JobRecord& job, CheckpointTasks& tasks, Notes& notes) {
  job.change().set_stops_when_saved(true);
  if (job.stored().definition().external_members()) {
    auto order = order_checkpoint_now(job, tasks, notes);
    // The one in progress counts; if there is none, the last checkpoint is already written.
    job.change().set_checkpoint_wanted(job.stored().has_checkpoint());
    return order;
  }
  // A checkpoint that is about to be complete stays, and the last one follows it.
  if (job.stored().has_checkpoint() && !job.finishes_checkpoint) withdraw_checkpoint(job, tasks);
  if (const std::string refusal = too_few_servers(job.stored()); !refusal.empty()) {
    return no_checkpoint(job, refusal);
  }
  pb::StoredJob& stored = job.change();
  stored.clear_checkpoint_failure();
  stored.set_checkpoint_misses(0);
  stored.set_checkpoint_wanted(true);
  // Until the last checkpoint's clock is known, use a clock that no earlier order has.
  stored.set_saved_before(stored.has_checkpoint() && stored.checkpoint().clock() == 1 ? 2 : 1);
  job.revise_workers();
  return fmt::format("job {}: its workers begin no clock until the last checkpoint's is known",
                     stored.job());
}

void note_finished(JobRecord& job, const CheckpointTask& task, const std::string& error,
                   CheckpointTasks& tasks, Notes& notes) {
  const pb::StoredJob& before = job.stored();
  if (!before.has_checkpoint() || before.checkpoint().number() != task.number) return;
  if (!error.empty()) {
    // Some servers may have moved their parts already.
    leave_parts(job, task.tried, task.number);
    give_up(job, error, tasks, notes);
    return;
  }
  pb::StoredJob& stored = job.change();
  const std::int64_t clock = stored.checkpoint().clock();
  const std::string& folder = task.folder;
  auto& kept = *stored.mutable_checkpoints();
  for (int i = kept.size(); i-- > 0;) {
    if (kept[i].folder() == folder) kept.DeleteSubrange(i, 1);
  }
  pb::KeptCheckpoint& newest = *stored.add_checkpoints();
  newest.set_clock(clock);
  newest.set_folder(folder);
  newest.set_order(task.number);
  newest.set_manifest_sha256(task.manifest_sha256);
  const bool is_last = is_last_before_stop(stored);
  stored.clear_checkpoint();
  stored.set_checkpointed_to(std::max(stored.checkpointed_to(), clock));
  stored.set_checkpoint_misses(0);
  stored.set_checkpoint_wanted(!is_last);
  stored.clear_checkpoint_failure();
  job.finishes_checkpoint = false;
  // Servers keep memory ready for the next checkpoint: they must know if there will be none.
  const bool continues = stored.state() == pb::RUNNING && !stored.closing();
  if (continues && due_clock(job, lowest_clock(job)) == 0) job.revise();
  notes.add(JobId(stored.job()),
            fmt::format("the checkpoint at clock {} is complete: {}", clock, folder));
}

}  // namespace taut
