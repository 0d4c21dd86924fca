#include "server/coordinator/job_life.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/exchange/settle_rows.hpp"
#include "proto/config/experiment_check.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/job_tables.hpp"
#include "proto/config/settle_balance.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "proto/message_limits.hpp"
#include "server/coordinator/compression/compression_choice.hpp"
#include "server/coordinator/placement/shard_placement.hpp"
#include "server/coordinator/queue/job_demand.hpp"

namespace taut {
namespace {

constexpr std::uint64_t kQuarantineAfter = 4;  // clocks with updates that are not finite

/// Whether any worker that must end has neither reported nor been lost.
bool owes_report(const JobRecord& job) {
  if (job.working() == 0) return false;
  for (int i = 0; i < job.stored().members_size(); ++i) {
    if (job.works(job.stored().members(i)) && job.workers[static_cast<std::size_t>(i)].notified) {
      return true;
    }
  }
  return false;
}

void end(JobRecord& job, pb::JobState state, TimePoint now, Notes& notes) {
  job.count_running(now);
  pb::StoredJob& stored = job.change();
  stored.set_state(state);
  stored.set_records_per_second(job.records_per_second());
  stored.set_closing(false);
  stored.clear_preparing();
  stored.clear_followers();
  // Its followers must get the last version before servers drop it.
  stored.set_lingers(!job.followers.empty() && !stored.servers().empty());
  job.lingers_from = now;
  job.revise();
  notes.add(JobId(stored.job()),
            fmt::format("{}{}{}", pb::JobState_Name(state), stored.message().empty() ? "" : ": ",
                        stored.message()));
}

/// Orders every worker to end; `shown` is the state until then.
void close(JobRecord& job, pb::JobState shown, pb::JobState end_state, const std::string& message,
           TimePoint now) {
  job.count_running(now);
  pb::StoredJob& stored = job.change();
  stored.set_state(shown);
  stored.set_end_state(end_state);
  stored.set_message(message);
  stored.set_closing(true);
  job.start_closing(now);
  for (int i = 0; i < stored.members_size(); ++i) job.revise_worker(i);
}

std::string what_was_lost(const JobRecord& job) {
  const auto& members = job.stored().members();
  const auto former = static_cast<std::ptrdiff_t>(job.stored().former().members());
  const auto lost =
      former + std::count_if(members.begin(), members.end(), [](const pb::StoredMember& member) {
        return member.lost() && !member.progress().left();
      });
  if (lost == 0) return "";
  std::string text = fmt::format("{} of {} workers {} lost", lost, former + members.size(),
                                 lost == 1 ? "was" : "were");
  const bool evaluated =
      std::any_of(members.begin(), members.end(), [&](const pb::StoredMember& member) {
        return member.finished() && member.member().worker() == job.stored().evaluating();
      });
  if (!evaluated) text += "; no worker was left to evaluate the final parameters";
  return text;
}

/// What the user of a finished job should know.
std::string remarks_on(const JobRecord& job) {
  std::string text = what_was_lost(job);
  for (int i = 0; i < job.stored().members_size(); ++i) {
    const std::uint64_t bad = job.workers[static_cast<std::size_t>(i)].bad_updates;
    if (bad == 0) continue;
    if (!text.empty()) text += "; ";
    text += fmt::format("updates of worker \"{}\" that were not finite were refused",
                        job.stored().members(i).member().name());
  }
  const bool diverged = std::ranges::any_of(
      job.stored().members(),
      [](const pb::StoredMember& member) { return member.progress().diverged(); });
  if (!diverged) return text;
  if (!text.empty()) text += "; ";
  return text + "the training has diverged, which on_divergence: CONTINUE allows";
}

void lose_member(JobRecord& job, int index, const std::string& reason, Notes& notes) {
  pb::StoredMember& member = *job.change().mutable_members(index);
  member.set_lost(true);
  const std::uint32_t left = job.working();
  job.change().set_message(
      fmt::format("{}; {} of {} workers continue", reason, left, job.stored().slots()));
  notes.add(JobId(job.stored().job()), job.stored().message());
}

}  // namespace

Result<Slack> check_definition(const pb::Job& definition, std::uint32_t max_workers) {
  TAUT_TRY(check_utf8(definition));
  TAUT_TRY(check_external_members(definition));
  const bool has_net = definition.has_net_param() || definition.external_members();
  if (!has_net || !definition.has_solver_param()) {
    return invalid(
        "the job has no net_param or no solver_param; submit it with "
        "\"tautline submit\", which reads the files that it names");
  }
  if (definition.solver_param().max_iter() <= 0 && !definition.external_members()) {
    return invalid(fmt::format("solver: max_iter is {}; it must be at least 1",
                               definition.solver_param().max_iter()));
  }
  if (definition.workers() > max_workers) {
    return invalid(
        fmt::format("workers: {} is above the limit of {}", definition.workers(), max_workers));
  }
  TAUT_TRY(check_min_workers(definition));
  TAUT_TRY(check_experiment(definition));
  if (const auto misfit = misfit_of_exchange(definition)) return invalid(misfit->what);
  TAUT_TRY(to_policies(definition));
  TAUT_TRY(to_compression(definition));
  TAUT_TRY(check_balance(definition));
  TAUT_TRY(to_tables(definition));
  TAUT_TRY(check_checkpoints(definition));
  TAUT_TRY(to_update_rule(definition));
  if (const auto misfit = misfit_of_rows(definition)) return invalid(misfit->what);
  const pb::Consistency& consistency = definition.consistency();
  const bool names_slack = consistency.has_slack();
  switch (consistency.mode()) {
    case pb::Consistency::SSP:
      return Slack(consistency.has_dynamic_slack() ? consistency.dynamic_slack().least()
                                                   : consistency.slack());
    case pb::Consistency::BSP:
      if (!names_slack || consistency.slack() == 0) return Slack(0);
      break;
    case pb::Consistency::ASYNC:
      if (!names_slack) return Slack::unbounded();
      break;
  }
  return invalid(
      fmt::format("consistency: mode {} has no slack, but slack is {}; omit it, or "
                  "choose mode: SSP",
                  pb::Consistency::Mode_Name(consistency.mode()), consistency.slack()));
}

Result<void> check_slack(const pb::Job& definition, Slack slack) {
  pb::Job changed;
  *changed.mutable_consistency() = definition.consistency();
  changed.set_workers(definition.workers());
  pb::Consistency& consistency = *changed.mutable_consistency();
  if (slack.is_unbounded()) {
    consistency.set_mode(pb::Consistency::ASYNC);
  } else {
    consistency.set_mode(slack == Slack(0) ? pb::Consistency::BSP : pb::Consistency::SSP);
  }
  consistency.clear_slack();
  if (consistency.mode() == pb::Consistency::SSP) {
    consistency.set_slack(static_cast<std::uint32_t>(slack.clocks()));
  }
  *changed.mutable_exchange() = definition.exchange();
  if (const auto misfit = misfit_of_exchange(changed)) return invalid(misfit->what);
  const auto policies = to_policies(changed);
  if (!policies) return policies.error();
  changed.set_balance(definition.balance());
  changed.mutable_solver_param()->set_type(definition.solver_param().type());
  if (const auto misfit = misfit_of_balance(changed)) return invalid(misfit->what);
  return ok();
}

pb::StoredJob new_job(JobId id, std::uint64_t token, const pb::Job& definition,
                      const std::string& user, Slack slack, const pb::ResumePoint* resume) {
  pb::StoredJob stored;
  stored.set_job(id.value());
  stored.set_token(token);
  stored.set_user(user);
  *stored.mutable_definition() = definition;
  stored.set_state(pb::SUBMITTED);
  stored.set_slack(slack.clocks());
  stored.set_wanted_slack(slack.clocks());
  stored.set_hold_from(Clock::never().value());
  stored.set_slots(definition.workers());
  stored.set_priority(definition.priority());
  if (resume != nullptr) {
    *stored.mutable_resume() = *resume;
    stored.set_checkpointed_to(resume->clock());
    keep_compression(stored);
  }
  return stored;
}

void start_job(JobRecord& job, const Registry& registry,
               const std::vector<const Participant*>& joined, const Replication& replication,
               TimePoint now, Notes& notes) {
  pb::StoredJob& stored = job.change();
  std::uint32_t shards = 0;
  for (const Participant* server : registry.available(pb::ROLE_SERVER)) {
    pb::StoredServer& chosen = *stored.add_servers();
    chosen.set_name(server->name);
    chosen.set_session(server->session);
    chosen.set_incarnation(server->incarnation.value());
    chosen.set_first_shard(shards);
    for (const std::string& address : server->shard_addresses) {
      chosen.add_shard_addresses(address);
      ++shards;
    }
    job.servers.emplace_back();
  }
  place_shards(job, registry, replication);
  const std::uint32_t workers = stored.definition().workers();
  const std::size_t count =
      workers == 0 ? joined.size() : std::min<std::size_t>(workers, joined.size());
  stored.set_slots(workers == 0 ? static_cast<std::uint32_t>(count) : workers);
  stored.set_state(pb::RUNNING);
  stored.set_slack(stored.wanted_slack());
  stored.add_modes()->set_mode(mode_of_slack(stored.slack()));
  job.revise();
  // A job that may have more workers gets them as the scheduling policy decides.
  if (min_running_workers(job) < stored.slots() && job.takes() == JobId()) {
    stored.set_worker_limit(static_cast<std::uint32_t>(count));
  }
  const Clock first = first_update(stored.definition());
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    pb::Member member;
    member.set_worker(rank);
    member.set_slot(rank);
    member.set_incarnation(joined[rank]->incarnation.value());
    member.set_name(joined[rank]->name);
    member.set_join_clock(std::max(stored.resume().clock(), first.value()));
    member.set_leave_clock(Clock::never().value());
    job.add_member(member, joined[rank]->session, joined[rank]->device);
  }
  job.start_running(now);
  if (count < stored.slots()) {
    stored.set_message(
        fmt::format("{} of {} workers; others join while it runs", count, stored.slots()));
  }
  notes.add(JobId(stored.job()),
            fmt::format("starts on {}{} worker{} and {} shard{}, slack {}{}", count,
                        count < stored.slots() ? fmt::format(" of {}", stored.slots()) : "",
                        count == 1 ? "" : "s", shards, shards == 1 ? "" : "s",
                        Slack(stored.slack()).to_string(),
                        stored.has_resume()
                            ? fmt::format(", from clock {} of {}", stored.resume().clock(),
                                          stored.resume().folder())
                            : ""));
  const auto others = static_cast<std::uint32_t>(stored.servers_size() - 1);
  if (!stored.shards().empty() && others < replication.copies) {
    notes.add(JobId(stored.job()),
              fmt::format(
                  "each shard has {} of {} backups, since there are {} servers; it gets more when "
                  "others join",
                  others, replication.copies, others + 1));
  }
}

void note_losses(JobRecord& job, const Registry& registry, TimePoint now, CheckpointTasks& tasks,
                 Notes& notes) {
  const std::pair checked(job.version(), registry.changes());
  const bool is_new = job.alive_at != checked;
  job.alive_at = checked;
  for (int i = 0; is_new && i < job.stored().members_size(); ++i) {
    const pb::StoredMember& stored = job.stored().members(i);
    const pb::Member& member = stored.member();
    if (!job.works(stored)) continue;
    if (registry.find_live(pb::ROLE_WORKER, member.name(), Incarnation(member.incarnation()))) {
      continue;
    }
    const std::string reason =
        registry.loss_of(pb::ROLE_WORKER, member.name(), Incarnation(member.incarnation()));
    if (job.stored().closing()) {
      job.change().mutable_members(i)->set_lost(true);
    } else {
      lose_member(job, i, reason, notes);
    }
  }
  if (job.stored().closing()) return;
  job.choose_evaluator();
  const bool is_placement_due = std::exchange(job.placement_due, false) || is_new;
  if (!is_placement_due) return;
  if (const std::string lost = replace_servers(job, registry, now, tasks, notes); !lost.empty()) {
    fail_job(job, lost, now, notes);
  }
}

void fail_job(JobRecord& job, const std::string& message, TimePoint now, Notes& notes) {
  notes.add(JobId(job.stored().job()), fmt::format("fails: {}", message));
  close(job, pb::FAILED, pb::FAILED, message, now);
}

void stop_job(JobRecord& job, TimePoint now, Notes& notes) {
  const pb::StoredJob& stored = job.stored();
  std::string message = stored.requeued()   ? stored.message()
                        : stored.finishes() ? "finished by request"
                                            : "stopped by request";
  if (stored.stops_when_saved()) {
    const int kept = stored.checkpoints_size();
    if (!stored.checkpoint_failure().empty()) {
      message += "; " + stored.checkpoint_failure();
    } else if (stored.checkpoint_wanted()) {
      message += "; its checkpoint was not written in time";
    } else if (kept > 0) {
      message += fmt::format("; saved at clock {}: {}", stored.checkpoints(kept - 1).clock(),
                             stored.checkpoints(kept - 1).folder());
    }
  }
  job.change().set_message(message);
  if (job.stored().state() == pb::SUBMITTED) {
    end(job, pb::STOPPED, now, notes);
  } else {
    close(job, pb::RUNNING, stored.finishes() ? pb::DONE : pb::STOPPED, message, now);
  }
}

bool may_restart(const pb::StoredJob& job) {
  if (job.restarted_as() != 0 || job.diverged()) return false;
  return job.state() == pb::FAILED ? job.definition().restart() > 0
                                   : job.state() == pb::STOPPED && job.requeued();
}

void note_failure(JobRecord& job, int member, const std::string& title, TimePoint now,
                  Notes& notes) {
  const pb::Progress& progress = job.stored().members(member).progress();
  const std::string reason = fmt::format("{}: {}", title, progress.error());
  if (job.stored().closing()) {
    // It was ordered to end, and has ended.
    job.change().mutable_members(member)->set_lost(true);
  } else if (progress.diverged()) {
    job.change().mutable_members(member)->set_lost(true);
    job.change().set_diverged(true);
    fail_job(job, reason, now, notes);
  } else {
    lose_member(job, member, reason, notes);
  }
}

void note_left(JobRecord& job, int member, const std::string& title, Notes& notes) {
  const std::int64_t clock = job.stored().members(member).progress().clock();
  if (job.stored().members(member).finished()) {
    job.change().mutable_members(member)->set_lost(true);
    notes.add(JobId(job.stored().job()),
              fmt::format("{} has finished before clock {}", title, clock));
    return;
  }
  lose_member(job, member, fmt::format("{} has left before clock {}, as it was to", title, clock),
              notes);
}

void note_bad_updates(JobRecord& job, TimePoint now, Notes& notes) {
  if (job.stored().closing() || !std::exchange(job.has_new_bad_updates, false)) return;
  for (int i = 0; i < job.stored().members_size(); ++i) {
    JobRecord::Worker& worker = job.workers[static_cast<std::size_t>(i)];
    if (worker.bad_updates == worker.judged_bad_updates) continue;
    worker.judged_bad_updates = worker.bad_updates;
    const pb::StoredMember& stored = job.stored().members(i);
    const std::string name = stored.member().name();
    const std::string what =
        fmt::format("worker \"{}\" has sent updates that are not finite, at {} or more clocks",
                    name, worker.bad_updates);
    const auto policy = job.stored().definition().on_bad_update();
    if (policy == pb::Job::FAIL) {
      job.change().set_diverged(true);
      fail_job(job, what + "; on_bad_update is FAIL", now, notes);
      return;
    }
    const std::string message = what + "; they were refused";
    if (policy != pb::Job::QUARANTINE || worker.bad_updates < kQuarantineAfter ||
        !job.works(stored)) {
      job.change().set_message(message);
      notes.add(JobId(job.stored().job()), message);
      continue;
    }
    if (job.working() == 1) {
      // A bad last worker cannot be distinguished from a training that has diverged.
      job.change().set_diverged(true);
      fail_job(job, what + ", and no other worker is left", now, notes);
      return;
    }
    job.change().add_quarantined(name);
    lose_member(job, i, message + ", and it is quarantined", notes);
  }
}

namespace {

/// Why the job cannot wait for another worker; empty if it can.
std::string cause_of_all(const JobRecord& job) {
  const auto& members = job.stored().members();
  const bool all_failed = std::all_of(
      members.begin(), members.end(),
      [](const pb::StoredMember& member) { return !member.progress().error().empty(); });
  if (!all_failed || members.empty()) return "";
  const pb::StoredMember& last = members.at(members.size() - 1);
  const std::string reason =
      fmt::format("worker \"{}\": {}", last.member().name(), last.progress().error());
  return members.size() == 1 ? reason : "every worker failed; " + reason;
}

/// Handles a job of which no member works and none has finished.
void note_empty(JobRecord& job, Duration limit, TimePoint now, Notes& notes) {
  if (job.takes() != JobId()) {
    // Programs join and leave; only they decide that the job is over.
    if (!job.waits_for_workers) {
      job.waits_for_workers = now;
      job.change().set_message(fmt::format("{}{}waits for a member to join", job.stored().message(),
                                           job.stored().message().empty() ? "" : "; "));
    }
    return;
  }
  if (const std::string cause = cause_of_all(job); !cause.empty()) {
    fail_job(job, cause, now, notes);
    end(job, pb::FAILED, now, notes);
    return;
  }
  if (!job.waits_for_workers) {
    job.waits_for_workers = now;
    if (limit > Duration::zero()) {
      // A restarted coordinator restarts the wait, and already has the message.
      const std::string wait =
          fmt::format("; waits up to {:g} s for another worker", seconds(limit));
      if (!job.stored().message().ends_with(wait)) job.change().mutable_message()->append(wait);
      notes.add(JobId(job.stored().job()), job.stored().message());
    }
  }
  if (now - *job.waits_for_workers < limit) return;
  fail_job(job, fmt::format("every worker was lost; the last: {}", job.stored().message()), now,
           notes);
  end(job, pb::FAILED, now, notes);
}

}  // namespace

void note_end(JobRecord& job, const EndLimits& limits, TimePoint now, Notes& notes) {
  if (job.stored().closing()) {
    if (!owes_report(job) || now - job.closing_since() >= limits.stop) {
      end(job, job.stored().end_state(), now, notes);
    }
    return;
  }
  const auto& members = job.stored().members();
  const auto any = [&members](auto&& predicate) {
    return std::any_of(members.begin(), members.end(), predicate);
  };
  if (job.working() > 0) {
    job.waits_for_workers.reset();
    return;
  }
  if (job.has_finished_members()) {
    if (job.stored().has_checkpoint()) return;
    // Aggregates that wait for a lost worker contain the others' acknowledged updates: the servers
    // must adopt its leave clock and apply them before they drop the job.
    const bool cut_due = any([](const pb::StoredMember& member) {
      return member.lost() && member.member().leave_clock() == Clock::never().value();
    });
    const bool any_lost = any([](const pb::StoredMember& member) { return member.lost(); });
    if (cut_due || (any_lost && !job.servers_have(job.stored().revision()))) return;
    job.change().set_message(remarks_on(job));
    end(job, pb::DONE, now, notes);
  } else {
    note_empty(job, limits.worker_wait, now, notes);
  }
}

}  // namespace taut
