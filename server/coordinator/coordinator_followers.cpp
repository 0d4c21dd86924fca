// Readers that follow a job: the replies that they get, and which of them training waits for.
#include <fmt/format.h>

#include <algorithm>

#include "proto/config/external_job.hpp"
#include "proto/config/job_state.hpp"
#include "server/coordinator/coordinator.hpp"

namespace taut {
namespace {

// How many cut bounded followers are remembered, the newest ones: one that returns is refused as
// cut.
constexpr int kKnownCuts = 1024;
// How long an ended job's tables are kept for its followers, and how long a restarted coordinator
// waits for them to report.
constexpr Duration kLinger = std::chrono::seconds(10);
constexpr Duration kReport = std::chrono::seconds(2);

bool is_cut(const pb::StoredJob& stored, FollowerId id) {
  return std::ranges::count(stored.cut_followers(), id.value()) > 0;
}

const pb::StoredFollower* find_bounded(const pb::StoredJob& stored, FollowerId id) {
  const auto found = std::ranges::find_if(stored.followers(), [id](const auto& one) {
    return one.follower().follower() == id.value();
  });
  return found == stored.followers().end() ? nullptr : &*found;
}

/// Whether a report in the name of a follower that training waits for may be its own: another
/// reader, for which training need not wait, can know its number and name. Until the follower knows
/// that servers know it, its reports may be unbounded.
bool may_be_its_own(const pb::StoredFollower& bound, const pb::Follow& report, bool is_known) {
  return report.name() == bound.follower().name() && (report.bounded() || !is_known);
}

/// Training no longer waits for this follower. Returns whether it did before.
bool release(JobRecord& job, FollowerId id) {
  if (find_bounded(job.stored(), id) == nullptr) return false;
  auto& followers = *job.change().mutable_followers();
  followers.erase(std::remove_if(followers.begin(), followers.end(),
                                 [id](const pb::StoredFollower& one) {
                                   return one.follower().follower() == id.value();
                                 }),
                  followers.end());
  if (job.is_active()) job.revise();
  return true;
}

/// Why this job may have no further bounded follower; empty if it may.
std::string why_not_bounded(const pb::StoredJob& stored) {
  if (!stored.definition().has_followers()) {
    return fmt::format(
        "job {}: its text lets no follower hold training back; submit it with \"followers {{ "
        "slack: "
        "N }}\", or follow without a bound",
        stored.job());
  }
  if (static_cast<std::size_t>(stored.followers_size()) < Followers::kMax) return {};
  return fmt::format("job {} has {} bounded followers, which is the limit", stored.job(),
                     stored.followers_size());
}

/// Makes training wait for a follower from now on.
void bind(JobRecord& job, const pb::Follow& request, Notes& notes) {
  pb::StoredFollower added;
  added.mutable_follower()->set_follower(request.follower());
  added.mutable_follower()->set_name(request.name());
  added.mutable_follower()->set_from(std::max<std::int64_t>(request.version(), 0));
  added.set_since(job.stored().revision() + 1);
  *job.change().add_followers() = added;
  if (job.is_active()) job.revise();
  notes.add(JobId(job.stored().job()),
            fmt::format("follower \"{}\" has joined; training waits for it", request.name()));
}

}  // namespace

/// How long a follower of the job may be silent.
Duration Coordinator::lease_of(const JobRecord& job) const {
  const double lease_s = job.stored().definition().followers().lease_s();
  return lease_s > 0 ? from_seconds(lease_s) : options_.heartbeat_limit;
}

void Coordinator::on_follow(const pb::Follow& request, pb::FollowReply& reply) {
  const auto found = jobs_.find(JobId(request.job()));
  if (found == jobs_.end()) {
    reply.set_error(
        fmt::format("job {} does not exist; \"tautline status\" lists the jobs", request.job()));
    return;
  }
  JobRecord& job = found->second;
  const FollowerId id(request.follower());
  if (id == FollowerId()) {
    reply.set_error("a follower without a number; it draws one when it begins");
    return;
  }
  const pb::StoredFollower* bound = find_bounded(job.stored(), id);
  const bool is_known =
      bound != nullptr && job.stored().state() == pb::RUNNING && job.servers_have(bound->since());
  if (request.leaves()) {
    if (bound != nullptr && !may_be_its_own(*bound, request, true)) return;
    job.followers.remove(id);
    if (release(job, id)) {
      out_.notes.add(JobId(request.job()), fmt::format("follower \"{}\" has left", request.name()));
    }
    return;
  }
  reply.set_state(job.stored().state());
  reply.set_message(job.stored().state() == pb::SUBMITTED ? waiting_message(job, queue())
                                                          : job.stored().message());
  reply.set_lease_s(seconds(lease_of(job)));
  if (job.has_ended() && !job.stored().lingers()) return;
  if (request.bounded() && is_cut(job.stored(), id)) {
    reply.set_cut(fmt::format(
        "follower \"{}\" of job {} was silent for longer than its lease of {:g} s, and training "
        "continues without it; follow again",
        request.name(), request.job(), seconds(lease_of(job))));
    return;
  }
  if (request.bounded() && bound == nullptr && !job.has_ended()) {
    reply.set_error(why_not_bounded(job.stored()));
    if (!reply.error().empty()) return;
  }
  const bool counts = bound == nullptr || may_be_its_own(*bound, request, is_known);
  const Followers::Follower* follower =
      counts ? job.followers.hear(request, now_) : job.followers.find(id);
  if (follower == nullptr) {
    reply.set_error(
        fmt::format("job {} has {} followers, which is the limit", request.job(), Followers::kMax));
    return;
  }
  // Servers do not know one yet that is bound only now.
  if (request.bounded() && bound == nullptr && !job.has_ended()) bind(job, request, out_.notes);
  reply.set_joined(is_known || job.has_ended());
  reply.set_job_hash(job_hash(job.stored().definition()));
  job.add_shards_to(reply);
  reply.set_first_version(is_seeded(job.stored().definition()) ? kFirstExternalClock : 0);
  reply.set_slack(job.stored().definition().followers().slack());
  reply.set_lingers(job.stored().lingers());
  if (const Followers::Follower* source = job.followers.source_of(*follower)) {
    reply.set_source(source->id.value());
    reply.set_source_address(source->address);
  }
}

/// Cuts bounded followers that were silent for too long, forgets other silent ones, and drops an
/// ended job's tables once its followers have left, or after a while.
void Coordinator::note_followers(JobRecord& job) {
  if (job.has_ended() && !job.stored().lingers()) return;
  for (const Followers::Follower& silent : job.followers.silent(lease_of(job), now_)) {
    job.followers.remove(silent.id);
    if (!release(job, silent.id)) continue;
    pb::StoredJob& stored = job.change();
    stored.set_cuts(stored.cuts() + 1);
    stored.add_cut_followers(silent.id.value());
    if (stored.cut_followers_size() > kKnownCuts) {
      stored.mutable_cut_followers()->erase(stored.cut_followers().begin());
    }
    out_.notes.add(
        JobId(stored.job()),
        fmt::format(
            "follower \"{}\" was silent for {:g} s and was cut; training continues without it",
            silent.name, seconds(now_ - silent.last_heard)));
  }
  if (!job.stored().lingers()) return;
  // A restarted coordinator waits for them to report.
  if (!job.lingers_from) job.lingers_from = now_ + kReport;
  const bool all_have_it = job.followers.empty() && now_ >= *job.lingers_from;
  if (!all_have_it && now_ < *job.lingers_from + kLinger) return;
  job.change().set_lingers(false);
  job.revise();
}

}  // namespace taut
