#include "server/coordinator/epoch_change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/types.hpp"
#include "proto/config/external_job.hpp"
#include "server/coordinator/placement/shard_placement.hpp"

namespace taut {
namespace {

constexpr std::int64_t kNever = Clock::never().value();
// Distance of a change from the highest known clock.
constexpr std::int64_t kLead = 2;
// Limits on the clocks added for a worker that joins, so that the others train while it starts:
// this time, and this fraction of the remaining clocks.
constexpr double kMaxStart_s = 5;
constexpr std::int64_t kPartOfRest = 4;

/// Whether a worker that joins at this clock has nothing to do. If no worker is left and none has
/// finished, one may join at the end: it tests what the others have trained, and the job succeeds.
bool beyond_the_end(const JobRecord& job, std::int64_t clock) {
  const Clock end = end_clock(job.stored().definition());
  const bool ends_job = job.working() == 0 && !job.has_finished_members();
  return ends_job ? Clock(clock) > end : Clock(clock) >= end;
}

/// How many more workers the job may take now.
std::size_t room(const JobRecord& job) {
  const std::size_t limit = job.worker_limit();
  return std::min(job.roster().free_slots().size(),
                  limit - std::min<std::size_t>(limit, job.staying()));
}

/// The idle workers that the job may take.
std::vector<const Participant*> candidates(const JobRecord& job, const IdleWorkers& idle) {
  std::vector<const Participant*> workers = idle();
  std::erase_if(workers, [&job](const Participant* worker) {
    return job.find_member(worker->incarnation) >= 0 ||
           std::ranges::count(job.stored().quarantined(), worker->name) > 0;
  });
  return workers;
}

void prepare_leave(JobRecord& job) {
  pb::StoredJob& stored = job.change();
  pb::EpochChange& change = *stored.mutable_preparing();
  change.set_kind(pb::EpochChange::LEAVE);
  for (pb::StoredMember& member : *stored.mutable_members()) {
    if (!member.lost() || member.member().leave_clock() != kNever) continue;
    member.mutable_member()->set_fenced(true);
    change.add_leaving(member.member().worker());
  }
  job.revise();
}

/// Estimates from members' reports how many clocks the others train while a worker starts: it
/// builds its net and opens its data once it knows its first clock. 0: not known.
std::int64_t clocks_of_start(JobRecord& job) {
  double clock_s = std::numeric_limits<double>::infinity();
  for (const pb::StoredMember& member : job.stored().members()) {
    const pb::Progress& progress = member.progress();
    const std::int64_t clocks = progress.clock() - member.member().join_clock();
    const double start_s = progress.seconds_to_first_iteration();
    // The time of a worker that joined earlier includes its wait for the others.
    if (start_s > 0) job.start_s = std::min(job.start_s.value_or(start_s), start_s);
    if (clocks > 0 && progress.trained_s() > 0) {
      clock_s = std::min(clock_s, progress.trained_s() / static_cast<double>(clocks));
    }
  }
  if (!job.start_s || std::isinf(clock_s)) return 0;
  const std::int64_t rest = end_clock(job.stored().definition()).value() - first_free_clock(job);
  const double clocks = std::ceil(std::min(*job.start_s, kMaxStart_s) / clock_s);
  const std::int64_t most = std::max<std::int64_t>(rest, 0) / kPartOfRest;
  return static_cast<std::int64_t>(std::min(clocks, static_cast<double>(most)));
}

/// The highest clock that a member is known to have reached.
std::int64_t highest_clock(const JobRecord& job) {
  std::int64_t known = 0;
  for (const pb::StoredMember& member : job.stored().members()) {
    known = std::max({known, member.member().join_clock(), member.progress().clock()});
  }
  for (const JobRecord::Server& server : job.servers) {
    if (!server.lost) known = std::max(known, server.reply.max_done());
  }
  return known;
}

/// The first clock at which a change may be made. If no worker trains, one that joins may do what
/// is left, even before a change of mode that no worker has reached.
std::int64_t first_clock_for(const JobRecord& job, pb::EpochChange::Kind kind) {
  const bool is_alone = kind == pb::EpochChange::JOIN && job.working() == 0;
  return is_alone ? highest_clock(job) : first_free_clock(job);
}

pb::EpochChange& hold(JobRecord& job, pb::EpochChange::Kind kind) {
  const std::int64_t clock = first_clock_for(job, kind);
  pb::EpochChange& change = *job.change().mutable_preparing();
  change.set_kind(kind);
  job.change().set_hold_from(clock);
  job.revise();
  return change;
}

void end_preparation(JobRecord& job, bool succeeded) {
  pb::StoredJob& stored = job.change();
  stored.clear_preparing();
  stored.set_hold_from(kNever);
  if (succeeded) {
    stored.set_epoch(stored.epoch() + 1);
    job.revise_workers();
  }
}

/// Starts the next change, if any is due. Returns whether one was started or made.
bool begin(JobRecord& job, const IdleWorkers& idle, Notes& notes) {
  const pb::StoredJob& stored = job.stored();
  if (job.roster().leaving() > 0) {
    prepare_leave(job);
    return true;
  }
  if (stored.wanted_slack() != stored.slack()) {
    const auto current = stored.modes(stored.modes_size() - 1).mode();
    if (mode_of_slack(stored.wanted_slack()) == current) {
      job.change().set_slack(stored.wanted_slack());
      job.revise();
      notes.add(JobId(stored.job()),
                fmt::format("slack is now {}", Slack(stored.slack()).to_string()));
      return true;
    }
    // It is not known yet what members had sent to a lost primary.
    if (is_settling(job)) return false;
    hold(job, pb::EpochChange::MODE).set_slack(stored.wanted_slack());
    return true;
  }
  if (is_settling(job)) return false;
  if (room(job) == 0 || !has_clocks_left(job)) return false;
  if (candidates(job, idle).empty()) return false;
  hold(job, pb::EpochChange::JOIN);
  return true;
}

void add_member(JobRecord& job, const Participant& worker, std::uint32_t slot, std::int64_t clock,
                Notes& notes) {
  pb::Member member;
  member.set_worker(job.next_worker());
  member.set_incarnation(worker.incarnation.value());
  member.set_name(worker.name);
  member.set_slot(slot);
  member.set_join_clock(clock);
  member.set_leave_clock(kNever);
  job.add_member(member, worker.session, worker.device);
  job.choose_evaluator();
  const std::uint32_t working = job.working();
  // This replaces the loss that the status has shown.
  job.change().set_message(
      fmt::format("worker \"{}\" has joined from clock {} on; {} of {} workers", member.name(),
                  clock, working, job.stored().slots()));
  notes.add(JobId(job.stored().job()),
            fmt::format("worker \"{}\" has joined as {} from clock {} on", member.name(),
                        member.worker(), clock));
}

/// Whether a slot has, or has had, an owner after this clock: one that joined before the leave
/// clock of the previous owner was known.
bool is_taken_from(const JobRecord& job, std::uint32_t slot, std::int64_t clock) {
  const auto& members = job.stored().members();
  return std::ranges::count(job.roster().free_slots(), slot) == 0 ||
         std::any_of(members.begin(), members.end(), [&](const pb::StoredMember& one) {
           return one.member().slot() == slot && one.member().leave_clock() > clock;
         });
}

void make_leave(JobRecord& job, const IdleWorkers& idle, Notes& notes) {
  const pb::EpochChange change = job.stored().preparing();
  std::vector<pb::Member> drained;
  for (pb::StoredMember& member : *job.change().mutable_members()) {
    const auto& leaving = change.leaving();
    const std::uint32_t worker = member.member().worker();
    if (std::find(leaving.begin(), leaving.end(), worker) == leaving.end()) continue;
    const std::int64_t join = member.member().join_clock();
    std::int64_t leave = kNever;
    for (const JobRecord::Server& server : job.servers) {
      if (server.lost) continue;
      const auto& fenced = server.reply.fenced();
      const auto report =
          std::find_if(fenced.begin(), fenced.end(),
                       [worker](const pb::FencedProgress& one) { return one.worker() == worker; });
      leave = std::min(leave, report == fenced.end() ? join : report->min_done());
    }
    // No server has any slices: nothing was ever pushed.
    if (leave == kNever) leave = join;
    member.mutable_member()->set_leave_clock(std::max(leave, join));
    notes.add(JobId(job.stored().job()),
              fmt::format("worker \"{}\" has left at clock {}", member.member().name(),
                          member.member().leave_clock()));
    const bool is_exact = member.progress().left() && member.progress().clock() == leave;
    if (is_exact && !member.finished() && !beyond_the_end(job, leave))
      drained.push_back(member.member());
  }
  end_preparation(job, true);
  job.revise();
  // V has not passed the clock at which a drained member left, so a worker that waits for a place
  // takes over its share at that clock: no batch is computed without it.
  const std::vector<const Participant*> waiting = candidates(job, idle);
  std::size_t given = 0;
  for (const pb::Member& member : drained) {
    if (given == waiting.size() || room(job) == 0) break;
    if (is_taken_from(job, member.slot(), member.leave_clock())) continue;
    add_member(job, *waiting[given++], member.slot(), member.leave_clock(), notes);
  }
}

void make_mode(JobRecord& job, Notes& notes) {
  pb::StoredJob& stored = job.change();
  const std::int64_t slack = stored.preparing().slack();
  pb::ModeChange* last = stored.mutable_modes(stored.modes_size() - 1);
  if (last->first_clock() != stored.hold_from()) last = stored.add_modes();
  last->set_first_clock(stored.hold_from());
  last->set_mode(mode_of_slack(slack));
  stored.set_slack(slack);
  notes.add(JobId(stored.job()),
            fmt::format("slack is now {}; updates from clock {} on are applied {}",
                        Slack(slack).to_string(), last->first_clock(),
                        slack == 0 ? "as one aggregate a clock" : "on arrival"));
  end_preparation(job, true);
  job.revise();
}

/// Makes lost members leave no later than this clock, where their updates end: a server that is
/// lost too may have had more updates, and their leave clock may be later. Otherwise a worker that
/// takes over a slot would share it for some clocks.
void end_lost_members_at(JobRecord& job, std::int64_t clock) {
  for (pb::StoredMember& member : *job.change().mutable_members()) {
    pb::Member& its = *member.mutable_member();
    if (!its.fenced() || its.leave_clock() == kNever || its.leave_clock() <= clock) continue;
    its.set_leave_clock(std::max(clock, its.join_clock()));
  }
}

void make_join(JobRecord& job, const IdleWorkers& idle, Notes& notes) {
  // No update at or after the clock from which they are held was taken: any later one will do.
  const std::int64_t clock =
      job.stored().hold_from() + (job.working() > 0 ? clocks_of_start(job) : 0);
  const std::vector<const Participant*> waiting = candidates(job, idle);
  const std::vector<std::uint32_t> slots = job.roster().free_slots();
  // The workers for which this was prepared may be gone, and others may have joined.
  const std::size_t count = std::min(waiting.size(), room(job));
  const bool joins = count > 0 && !beyond_the_end(job, clock);
  if (joins) end_lost_members_at(job, job.stored().hold_from());
  end_preparation(job, joins);
  job.revise();
  for (std::size_t i = 0; joins && i < count; ++i) {
    add_member(job, *waiting[i], slots[i], clock, notes);
  }
}

/// Makes the prepared change, once the servers agree. Returns whether anything was done.
bool conclude(JobRecord& job, const IdleWorkers& idle, Notes& notes) {
  if (!job.servers_have(job.stored().revision())) return false;
  const auto kind = job.stored().preparing().kind();
  if (kind == pb::EpochChange::LEAVE) {
    make_leave(job, idle, notes);
    return true;
  }
  const bool too_low =
      std::any_of(job.servers.begin(), job.servers.end(), [&](const JobRecord::Server& server) {
        return !server.lost && server.reply.max_done() > job.stored().hold_from();
      });
  if (too_low) {
    job.change().set_hold_from(first_clock_for(job, kind));
    job.revise();
  } else if (kind == pb::EpochChange::MODE) {
    make_mode(job, notes);
  } else {
    make_join(job, idle, notes);
  }
  return true;
}

/// The lowest V of any slice that the servers have reported, or the first update of a lost member
/// that a shard's backup would take from its log.
Clock lowest_version(const JobRecord& job) {
  std::int64_t lowest = kNever;
  for (const JobRecord::Server& server : job.servers) {
    if (!server.lost) lowest = std::min(lowest, server.reply.min_version());
  }
  return Clock(lowest);
}

}  // namespace

std::int64_t first_free_clock(const JobRecord& job) {
  const pb::StoredJob& stored = job.stored();
  const std::int64_t known = highest_clock(job);
  // If no worker trains, none runs ahead of the change: one that joins may do what is left.
  const bool runs = job.working() > 0;
  // Until a member has sent the initial values, every member that joins sends them, so none are
  // missing if one is lost before it sends any.
  const bool is_unseeded = known == 0 && is_seeded(stored.definition());
  const std::int64_t lead = runs && !is_unseeded ? kLead : 0;
  // A later change of mode never precedes an earlier one.
  return std::max(known + lead, stored.modes(stored.modes_size() - 1).first_clock());
}

bool has_clocks_left(const JobRecord& job) {
  return !beyond_the_end(job, first_clock_for(job, pb::EpochChange::JOIN));
}

void advance_epoch(JobRecord& job, const IdleWorkers& idle, Notes& notes) {
  const bool is_quiet =
      !job.stored().has_preparing() && !job.stored().has_checkpoint() && !is_settling(job);
  if (is_quiet && job.servers_have(job.stored().revision())) job.forget_past(lowest_version(job));
  // A shard that was taken over may wait for a lost member, whose leave therefore comes first.
  const auto kind = job.stored().preparing().kind();
  if (job.stored().has_preparing() && kind != pb::EpochChange::LEAVE && is_settling(job)) {
    end_preparation(job, false);
    job.revise();
  }
  // A completed change may allow the next one; a started one waits for the servers.
  while (job.stored().has_preparing() ? conclude(job, idle, notes) : begin(job, idle, notes)) {
  }
}

}  // namespace taut
