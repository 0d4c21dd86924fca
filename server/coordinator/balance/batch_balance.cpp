#include "server/coordinator/balance/batch_balance.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ssp/batch_shares.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/settle_balance.hpp"
#include "server/coordinator/placement/shard_placement.hpp"

namespace taut {
namespace {

constexpr double kMinGain = 0.1;
// The minimum number of batches of its share over which a worker is measured.
constexpr std::uint64_t kBatches = 4;
// A worker that begins clocks faster than it reports them is overtaken within a few attempts, each
// of which is four times as far ahead as the one before.
constexpr std::int64_t kLead = 2;
constexpr std::uint32_t kMaxMisses = 6;

std::int64_t lead(std::uint32_t misses) {
  return kLead << (2 * std::min(misses, kMaxMisses));
}

/// The numbers of the members that work.
google::protobuf::RepeatedField<std::uint32_t> working_members(const JobRecord& job) {
  google::protobuf::RepeatedField<std::uint32_t> numbers;
  for (const pb::StoredMember& member : job.stored().members()) {
    if (job.works(member)) numbers.Add(member.member().worker());
  }
  return numbers;
}

/// Forgets changes before all clocks that a member may still begin. The newest ones stay: an update
/// may be weighted after its clock has ended, as a device's are.
void forget_past_shares(const JobRecord& job, pb::StoredJob& stored) {
  std::int64_t lowest = Clock::never().value();
  for (const pb::StoredMember& member : stored.members()) {
    if (!job.works(member)) continue;
    lowest = std::min(lowest, std::max(member.progress().clock(), member.member().join_clock()));
  }
  constexpr int kKept = 16;
  int past = 0;
  while (past + kKept < stored.shares_size() && stored.shares(past + 1).first_clock() <= lowest) {
    ++past;
  }
  stored.mutable_shares()->DeleteSubrange(0, past);
}

void measure_anew(JobRecord& job) {
  for (JobRecord::Worker& worker : job.workers) {
    worker.measured_from.reset();
    worker.measured.reset();
  }
}

/// Measures a worker's speed since its first report at its current share.
/// from     the clock from which its share applies
/// records  its share
void measure(JobRecord::Worker& worker, const pb::Progress& progress, std::int64_t from,
             std::uint32_t records, Duration at_least) {
  if (progress.clock() <= from || progress.images() == 0) return;
  if (!worker.measured_from || worker.measured_from->images() > progress.images()) {
    worker.measured_from = progress;
  }
  const double computed = progress.compute_s() - worker.measured_from->compute_s();
  const std::uint64_t trained = progress.images() - worker.measured_from->images();
  const bool is_enough = computed >= seconds(at_least) && trained >= kBatches * records;
  if (!is_enough || !(computed > 0) || !std::isfinite(computed)) return;
  worker.measured = BatchTime{records, computed / static_cast<double>(trained) * records};
}

/// Better shares than the current ones; nullopt if there are none, or they are not known yet.
std::optional<std::vector<std::uint32_t>> better_shares(JobRecord& job, const BatchShares& shares,
                                                        Duration at_least) {
  const pb::StoredJob& stored = job.stored();
  const std::span<const std::uint32_t> now = shares.at(Clock::never());
  const auto equal = static_cast<std::uint32_t>(shares.part(Clock(0), 0).total / now.size());
  const std::int64_t from =
      stored.shares().empty() ? -1 : stored.shares(stored.shares_size() - 1).first_clock();
  std::vector<MeasuredShare> measured;
  std::vector<MeasuredShare> as_now;
  std::uint64_t sum = 0;
  for (int i = 0; i < stored.members_size(); ++i) {
    const pb::StoredMember& member = stored.members(i);
    if (!job.works(member)) continue;
    const std::uint32_t slot = member.member().slot();
    sum += now[slot];
    as_now.push_back({slot, 1.0 / now[slot], 0});
    JobRecord::Worker& worker = job.workers[static_cast<std::size_t>(i)];
    measure(worker, member.progress(), from, now[slot], at_least);
    if (!worker.measured) continue;
    std::optional<BatchTime> earlier;
    if (member.earlier_share() > 0) {
      earlier = BatchTime{member.earlier_share(), member.earlier_batch_s()};
    }
    measured.push_back(measured_share(slot, *worker.measured, earlier));
  }
  if (as_now.empty()) return std::nullopt;
  // A member has joined or left: the others have more or fewer records than equal shares.
  if (sum != std::uint64_t{equal} * as_now.size()) return balanced_shares(as_now, now, equal, 0);
  if (measured.size() < as_now.size() || measured.size() < 2) return std::nullopt;
  auto better = balanced_shares(measured, now, equal, kMinGain);
  if (!better) measure_anew(job);
  return better;
}

void propose(JobRecord& job, const BalanceLimits& limits, TimePoint now, Notes& notes) {
  const pb::StoredJob& stored = job.stored();
  const auto shares = to_batch_shares(stored.definition(), stored.slots(), stored.shares());
  if (!shares || job.has_finished_members() || !job.all_answer()) return;
  const std::int64_t clock = job.first_unbegun() + lead(0);
  if (Clock(clock) >= end_clock(stored.definition())) return;
  const auto better = better_shares(job, shares.value(), limits.measure);
  if (!better || !shares.value().why_not(Clock(clock), *better).empty()) return;
  pb::StoredJob& changed = job.change();
  pb::BatchShares& proposed = *changed.mutable_proposed_shares();
  proposed.set_first_clock(clock);
  proposed.mutable_records()->Assign(better->begin(), better->end());
  changed.set_share_misses(0);
  *changed.mutable_share_workers() = working_members(job);
  job.shares_proposed = now;
  job.revise_workers();
  notes.add(JobId(stored.job()), fmt::format("shares of the batch {} are proposed for clock {}",
                                             fmt::join(*better, ", "), clock));
}

void end_proposal(pb::StoredJob& stored) {
  stored.clear_proposed_shares();
  stored.clear_share_misses();
  stored.clear_share_workers();
}

void make(JobRecord& job, Notes& notes) {
  pb::StoredJob& stored = job.change();
  *stored.add_shares() = stored.proposed_shares();
  forget_past_shares(job, stored);
  notes.add(JobId(stored.job()), fmt::format("shares of the batch from clock {} on: {}",
                                             stored.proposed_shares().first_clock(),
                                             fmt::join(stored.proposed_shares().records(), ", ")));
  end_proposal(stored);
  for (std::size_t i = 0; i < job.workers.size(); ++i) {
    const auto& measured = job.workers[i].measured;
    if (!measured) continue;
    pb::StoredMember& member = *stored.mutable_members(static_cast<int>(i));
    member.set_earlier_share(measured->records);
    member.set_earlier_batch_s(measured->seconds);
  }
  measure_anew(job);
  job.revise_workers();
}

/// Withdraws the proposal, which has no effect: every worker begins its clock with the old shares.
void withdraw(JobRecord& job, std::string_view why, Notes& notes) {
  pb::StoredJob& stored = job.change();
  notes.add(JobId(stored.job()), fmt::format("shares of the batch for clock {} are withdrawn: {}",
                                             stored.proposed_shares().first_clock(), why));
  end_proposal(stored);
  job.revise_workers();
}

/// Makes the proposed change once every worker holds its clock, or moves the clock further ahead.
void conclude(JobRecord& job, Duration hold, TimePoint now, Notes& notes) {
  const std::int64_t clock = job.stored().proposed_shares().first_clock();
  // A worker that has left may have begun the clock before it received the proposal.
  if (!std::ranges::equal(job.stored().share_workers(), working_members(job))) {
    return withdraw(job, "a worker has come or gone", notes);
  }
  if (!job.all_answer()) {
    // A restarted coordinator counts from now.
    if (!job.shares_proposed) job.shares_proposed = now;
    if (now - *job.shares_proposed >= hold) withdraw(job, "a worker has not answered", notes);
    return;
  }
  bool is_late = false;
  for (const pb::StoredMember& member : job.stored().members()) {
    is_late |= job.works(member) && member.progress().begun() > clock;
  }
  if (!is_late) return make(job, notes);
  pb::StoredJob& stored = job.change();
  stored.set_share_misses(stored.share_misses() + 1);
  const std::int64_t later = job.first_unbegun() + lead(stored.share_misses());
  if (Clock(later) < end_clock(stored.definition())) {
    stored.mutable_proposed_shares()->set_first_clock(later);
  } else {
    end_proposal(stored);
  }
  job.shares_proposed = now;
  job.revise_workers();
}

}  // namespace

void advance_balance(JobRecord& job, const BalanceLimits& limits, TimePoint now, Notes& notes) {
  if (!job.stored().definition().balance()) return;
  if (job.stored().has_proposed_shares()) {
    conclude(job, limits.hold, now, notes);
  } else if (!job.stored().has_preparing() && !is_settling(job)) {
    propose(job, limits, now, notes);
  }
}

}  // namespace taut
