#include "lab/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "lab/losses/draw_outages.hpp"
#include "lab/toy_outer.hpp"
#include "proto/config/settle_compression.hpp"

namespace taut::sim {
namespace {

using Kind = Plan::Event::Kind;

constexpr std::array<std::pair<std::string_view, bool Faults::*>, 18> kNames = {{
    {"drop", &Faults::drop},
    {"duplicate", &Faults::duplicate},
    {"delay", &Faults::delay},
    {"reorder", &Faults::reorder},
    {"partition", &Faults::partition},
    {"reconnect", &Faults::reconnect},
    {"pause", &Faults::pause},
    {"kill", &Faults::kill},
    {"join", &Faults::join},
    {"slack", &Faults::slack},
    {"restart", &Faults::restart},
    {"disk", &Faults::disk},
    {"checkpoint", &Faults::checkpoint},
    {"server", &Faults::server},
    {"drain", &Faults::drain},
    {"follow", &Faults::follow},
    {"shrink", &Faults::shrink},
    {"stop", &Faults::stop},
}};

Slack draw_slack(Random& random) {
  switch (random.below(6)) {
    case 0:
    case 1:
      return Slack(0);
    case 2:
      return Slack::unbounded();
    default:
      return Slack(random.between(1, 4));
  }
}

/// Half of the seeds have none. The last policy is drawn separately.
const ToyPolicy& draw_policy(Random& random) {
  const auto policies = toy_policies().first(toy_policies().size() - 1);
  if (random.chance(0.5)) return policies[0];
  return policies[1 + random.below(policies.size() - 1)];
}

/// Sets a job's policy, and a slack that fits it; does nothing if another slack is fixed.
void set_policy(const ToyPolicy& policy, Random& random, bool slack_is_fixed, ToyJob& job) {
  using Fit = ToyPolicy::Fit;
  const bool in_bsp = policy.fit == Fit::kBsp;
  if (policy.fit != Fit::kAny && in_bsp != (job.slack == Slack(0))) {
    if (slack_is_fixed) return;
    job.slack = in_bsp ? Slack(0) : Slack(random.between(1, 4));
    if (!in_bsp && random.chance(0.3)) job.slack = Slack::unbounded();
  }
  if (policy.fit == Fit::kSsp && job.slack.is_unbounded()) {
    if (slack_is_fixed) return;
    job.slack = Slack(random.between(1, 4));
  }
  policy.draw(random, job);
}

/// Draws what happens while the job runs.
class EventDrawer {
 public:
  EventDrawer(Plan& plan, Random& random, Duration span)
      : plan_(plan), random_(random), span_(span) {}

  void draw(const Faults& faults) {
    if (faults.reconnect) repeat(4, [this] { add(moment(), Kind::kBreak, any_process()); });
    if (faults.slack) {
      repeat(3, [this] { add(moment(), Kind::kSetSlack, draw_slack(random_).clocks()); });
    }
    if (faults.partition) repeat(3, [this] { draw_partition(); });
    if (faults.restart && random_.chance(0.3)) draw_restart();
    // At least one worker is left undisturbed.
    for (std::uint32_t worker = 1; worker < plan_.job.workers; ++worker) {
      const std::uint64_t fate = random_.below(4);
      if (fate == 0 && faults.pause) draw_pause(worker);
      if (fate == 1 && faults.kill) draw_kill(worker, faults.join);
    }
    if (faults.pause && random_.chance(0.2)) {
      const Duration from = moment();
      const NodeId server = plan_.server_node(pick(plan_.servers));
      add(from, Kind::kPause, server);
      add(from + plan_.heartbeat_limit / 3, Kind::kResume, server);
    }
    if (faults.join && random_.chance(0.3)) add(moment(), Kind::kStart, plan_.job.workers);
  }

 private:
  template <class Draw>
  void repeat(std::uint64_t max_count, const Draw& draw) {
    for (std::uint64_t i = random_.below(max_count + 1); i > 0; --i) draw();
  }
  std::uint32_t pick(std::uint32_t count) {
    return static_cast<std::uint32_t>(random_.below(count));
  }
  Duration moment() { return Duration(random_.between(0, span_.count())); }
  void add(Duration at, Kind kind, std::int64_t value, NodeId towards = 0) {
    plan_.events.push_back({at, kind, value, towards});
  }
  NodeId any_process() { return plan_.server_node(pick(plan_.servers + plan_.job.workers)); }

  void draw_partition() {
    const NodeId a = any_process();
    NodeId b = random_.chance(0.3) ? Plan::kCoordinatorNode : any_process();
    if (a == b) b = Plan::kCoordinatorNode;
    const bool worker_loses_coordinator = b == Plan::kCoordinatorNode && a > plan_.worker_node(0);
    // A server and one worker are kept alive: their silence is shorter than the limit.
    const Duration longest =
        worker_loses_coordinator ? plan_.heartbeat_limit * 3 : plan_.heartbeat_limit / 3;
    const Duration from = moment();
    const Duration to = from + Duration(random_.between(1000, longest.count()));
    const auto kinds = static_cast<std::uint64_t>(random_.between(1, 3));
    if ((kinds & 1U) != 0) {
      add(from, Kind::kBlock, a, b);
      add(to, Kind::kUnblock, a, b);
    }
    if ((kinds & 2U) != 0) {
      add(from, Kind::kBlock, b, a);
      add(to, Kind::kUnblock, b, a);
    }
  }
  void draw_restart() {
    const Duration from = moment();
    add(from, Kind::kStopCoordinator, 0);
    add(from + Duration(random_.between(1000, plan_.heartbeat_limit.count())),
        Kind::kStartCoordinator, 0);
  }
  void draw_pause(std::uint32_t worker) {
    const Duration from = moment();
    const Duration length(random_.between(1000, plan_.heartbeat_limit.count() * 3));
    add(from, Kind::kPause, plan_.worker_node(worker));
    add(from + length, Kind::kResume, plan_.worker_node(worker));
  }
  void draw_kill(std::uint32_t worker, bool comes_back) {
    const Duration from = moment();
    add(from, Kind::kKill, worker);
    const bool soon = comes_back && random_.chance(0.7);
    const std::int64_t limit = plan_.heartbeat_limit.count();
    // A job that has not started waits for it, however late.
    const std::int64_t pause = soon ? random_.between(1000, limit * 2) : limit * 20;
    add(from + Duration(pause), Kind::kStart, worker);
  }

  Plan& plan_;
  Random& random_;
  const Duration span_;
};

/// Some workers start late, and the job starts without them. Drawn separately, so that a seed's
/// other faults do not change.
void draw_late_workers(Plan& plan, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0x1a7e4ULL));
  const std::uint32_t least = plan.job.policies.backup_workers() + 1;
  if (plan.job.workers <= least || apart.chance(0.5)) return;
  plan.job.min_workers = static_cast<std::uint32_t>(apart.between(least, plan.job.workers - 1));
  for (std::uint32_t worker = plan.job.min_workers; worker < plan.job.workers; ++worker) {
    // Some of them together.
    const std::int64_t at = apart.chance(0.3) ? span.count() / 4 : apart.between(0, span.count());
    plan.events.push_back({Duration(at), Kind::kStart, worker, NodeId(0)});
  }
}

/// Shards have two backups in some runs with enough servers. Drawn separately, so that a seed's
/// other choices do not change.
void draw_copies(Plan& plan, const PlanLimits& limits) {
  Random apart(Random::mix(plan.seed ^ 0xc0b1e5ULL));
  if (limits.copies) {
    plan.replication_copies = *limits.copies;
    plan.servers = std::max(plan.servers, *limits.copies + 1 + (apart.chance(0.5) ? 1 : 0));
  } else if (plan.servers > 2 && apart.chance(0.4)) {
    plan.replication_copies = 2;
  }
}

/// Whether updates are applied together whose set does not follow from their clocks.
bool applies_some(const ToyJob& job) {
  return job.policies.backup_workers() > 0 || buffer_of(job.policies) > 0;
}

/// If the shards of such a job have backups, its answers wait for them, and less can be checked: so
/// only in half of the seeds. Drawn separately, as the servers that are killed.
bool chance_of_backups(std::uint64_t seed) {
  return Random(Random::mix(seed ^ 0x50e7ULL)).chance(0.5);
}

/// In some runs workers report how long they take to start, so that others join further ahead.
/// Drawn separately, so that a seed's other choices do not change.
void draw_start(Plan& plan) {
  Random apart(Random::mix(plan.seed ^ 0x57a47ULL));
  if (apart.chance(0.4)) {
    plan.clocks_of_start = apart.between(1, std::max<std::int64_t>(plan.job.clocks, 2));
  }
}

/// In some runs servers are on known machines, and some of them share one. Drawn separately, so
/// that a seed's other choices do not change.
void draw_machines(Plan& plan) {
  Random apart(Random::mix(plan.seed ^ 0x3ac41eULL));
  if (plan.servers > 2 && apart.chance(0.4)) {
    plan.machines = static_cast<std::uint32_t>(apart.between(1, plan.servers - 1));
  }
}

/// Servers and workers are drained one after another, and start again once they have ended. Drawn
/// separately, as the servers that are killed.
void draw_drains(Plan& plan, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0xd4a1aULL));
  if (plan.replication_interval == 0) {
    plan.replication_interval = static_cast<std::uint32_t>(apart.between(1, 4));
  }
  plan.drained_return = Duration(apart.between(1000, plan.heartbeat_limit.count() * 2));
  if (apart.chance(0.5)) plan.kept_bytes = apart.below(4096) + 1;
  // One more worker than the job has, which waits for a place.
  if (apart.chance(0.5)) {
    plan.events.push_back({Duration(0), Kind::kStart, plan.job.workers, NodeId(0)});
  }
  std::int64_t at = apart.between(0, span.count());
  for (std::uint64_t drains = 1 + apart.below(4); drains > 0; --drains) {
    const bool is_server = apart.chance(0.6);
    const auto process =
        static_cast<std::int64_t>(apart.below(is_server ? plan.servers : plan.job.workers));
    const Kind kind = is_server ? Kind::kDrainServer : Kind::kDrain;
    plan.events.push_back({Duration(at), kind, process, NodeId(0)});
    at += apart.between(1000, plan.heartbeat_limit.count() * 4);
  }
}

/// The cluster and the job.
void draw_job(Plan& plan, Random& random, const PlanLimits& limits) {
  const Faults& allowed = limits.faults;
  plan.servers = static_cast<std::uint32_t>(random.between(1, 2));
  if (allowed.server || allowed.drain) plan.servers = 2 + plan.servers % 2;
  if (limits.servers) plan.servers = *limits.servers;
  plan.shards_each = static_cast<std::uint32_t>(random.between(1, 2));
  plan.job.workers = static_cast<std::uint32_t>(random.between(1, 4));
  if (limits.workers) plan.job.workers = *limits.workers;
  plan.job.tables = static_cast<std::uint32_t>(random.between(1, 3));
  plan.job.slices = static_cast<std::uint32_t>(random.between(1, 3));
  plan.job.clocks = random.between(10, 60);
  if (limits.clocks) plan.job.clocks = *limits.clocks;
  plan.job.slack = draw_slack(random);
  if (limits.slack) plan.job.slack = *limits.slack;
  plan.job.mean = random.chance(0.2);
}

/// Some jobs without other additions divide the batch by speed. Drawn separately, so that other
/// seeds do not change.
void draw_balance_apart(Plan& plan, const PlanLimits& limits, const ToyPolicy& policy) {
  Random apart(Random::mix(plan.seed ^ 0xba1a4ceULL));
  const bool adds_nothing = &policy == &toy_policies().front() && !plan.job.is_seeded &&
                            plan.job.compression.push().empty();
  if (limits.policy != nullptr || !adds_nothing || !apart.chance(0.3)) return;
  toy_policies().back().draw(apart, plan.job);
  plan.slow_worker = static_cast<std::uint32_t>(apart.below(plan.job.workers));
  plan.slowness = apart.between(2, 6);
}

/// What the job adds to the contract. From separate generators, so that a seed's faults do not
/// depend on policies and compression.
void draw_additions(Plan& plan, const PlanLimits& limits) {
  Random policy_random(Random::mix(plan.seed ^ 0x9011c7ULL));
  const ToyPolicy& policy = limits.policy != nullptr ? *limits.policy : draw_policy(policy_random);
  set_policy(policy, policy_random, limits.slack.has_value(), plan.job);
  if (&policy != &toy_policies()[0] && policy_random.chance(0.5)) {
    plan.slow_worker = static_cast<std::uint32_t>(policy_random.below(plan.job.workers));
    plan.slowness = policy_random.between(2, 6);
  }
  // Its members bring no values, and their pushes are not encoded.
  if (plan.job.balance) return;
  Random compression_random(Random::mix(plan.seed ^ 0xc0dec5ULL));
  plan.job.compression = draw_compression(compression_random, plan.job.policies, limits.scheme);
  // Members of such a job keep nothing for later updates.
  Random seeded_random(Random::mix(plan.seed ^ 0x5eeded5ULL));
  const bool is_drawn = limits.seeded.value_or(seeded_random.chance(0.25));
  pb::Consistency& policies = plan.job.policies;
  plan.job.is_seeded =
      is_drawn && !policies.has_elastic_averaging() && !keeps_residuals(toy_definition(plan.job));
  draw_balance_apart(plan, limits, policy);
  if (!plan.job.is_seeded || !policies.has_periodic_averaging()) return;
  // One of their clocks is this many steps for each fragment.
  pb::PeriodicAveraging& averaging = *policies.mutable_periodic_averaging();
  averaging.set_interval(averaging.interval() * averaging.fragments());
}

/// What the network does to messages.
void draw_network(Plan& plan, Random& random, const Faults& allowed) {
  if (allowed.drop && random.chance(0.7)) {
    plan.faults.drop = 0.01 * static_cast<double>(random.below(15));
  }
  if (allowed.duplicate && random.chance(0.7)) {
    plan.faults.duplicate = 0.01 * static_cast<double>(random.below(20));
  }
  plan.faults.delay_min = Duration(random.between(20, 200));
  plan.faults.delay_max = plan.faults.delay_min;
  if (allowed.delay) {
    plan.faults.delay_max += Duration(random.between(0, 1L << random.between(6, 14)));
  }
  plan.faults.reorder = allowed.reorder && random.chance(0.7);
}

/// Checkpoint orders. From a separate generator, as the job's additions.
void draw_checkpoints(Plan& plan, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0xc4ec0ULL));
  if (apart.chance(0.5)) plan.job.checkpoint_every = apart.between(1, plan.job.clocks);
  for (std::uint64_t i = apart.below(4); i > 0; --i) {
    plan.events.push_back(
        {Duration(apart.between(0, span.count())), Kind::kCheckpoint, 0, NodeId(0)});
  }
}

/// One time at which the job is saved and stopped; drawn separately.
void draw_stop(Plan& plan, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0x5709ULL));
  plan.events.push_back({Duration(apart.between(0, span.count())), Kind::kStop, 0, NodeId(0)});
}

/// Readers that follow the job, which waits for most of them; some are killed, or pause for a
/// while. Drawn separately, as the servers that are killed.
void draw_followers(Plan& plan, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0xf0110e5ULL));
  if (apart.chance(0.5)) return;
  plan.followers = static_cast<std::uint32_t>(apart.between(1, 2));
  // With backup workers slices may keep different versions, and such a job is refused.
  plan.followers_bound = apart.chance(0.8) && plan.job.policies.backup_workers() == 0;
  if (plan.followers_bound) plan.job.follower_slack = apart.between(0, 3);
  for (std::uint32_t follower = 0; follower < plan.followers; ++follower) {
    const auto moment = [&] { return Duration(apart.between(0, span.count())); };
    const Duration begin = apart.chance(0.5) ? Duration(0) : moment();
    plan.events.push_back({begin, Kind::kStartFollower, follower, NodeId(0)});
    const std::uint64_t fate = apart.below(4);
    const Duration from = begin + moment();
    const Duration length(apart.between(1000, plan.heartbeat_limit.count() * 3));
    if (fate == 0) {
      plan.events.push_back({from, Kind::kKillFollower, follower, NodeId(0)});
      if (apart.chance(0.5)) {
        plan.events.push_back({from + length, Kind::kStartFollower, follower, NodeId(0)});
      }
    } else if (fate == 1) {
      plan.events.push_back({from, Kind::kPause, plan.follower_node(follower), NodeId(0)});
      plan.events.push_back(
          {from + length, Kind::kResume, plan.follower_node(follower), NodeId(0)});
    }
  }
}

/// Tables by rows, in some of the jobs that neither compress, average nor balance, bring no initial
/// values and have no backup workers. Such a job has no readers that follow it. Drawn separately,
/// so that other seeds do not change.
bool draw_tables_by_rows(Plan& plan, const PlanLimits& limits) {
  Random apart(Random::mix(plan.seed ^ 0x70775ULL));
  ToyJob& job = plan.job;
  const pb::Consistency& policies = job.policies;
  const bool is_plain = job.compression.push().empty() && job.compression.pull().empty() &&
                        !job.is_seeded && !policies.has_delay_compensation() &&
                        !policies.has_periodic_averaging() && !policies.has_elastic_averaging() &&
                        !job.balance && policies.backup_workers() == 0;
  const bool is_drawn = limits.by_rows || apart.chance(0.3);
  if (!is_plain || !is_drawn) return false;
  job.rows = draw_rows(apart, job.clocks);
  return true;
}

/// Jobs of higher priority that take workers from this one, which gets them back. Drawn separately,
/// as the servers that are killed.
void draw_preempting_jobs(Plan& plan, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0x54714cULL));
  const std::uint32_t least = plan.job.policies.backup_workers() + 1;
  // A program is for its job alone.
  if (plan.job.is_seeded || plan.job.workers <= least || apart.chance(0.5)) return;
  if (plan.job.min_workers == 0) {
    plan.job.min_workers = static_cast<std::uint32_t>(apart.between(least, plan.job.workers - 1));
    for (std::uint32_t worker = plan.job.min_workers; worker < plan.job.workers; ++worker) {
      plan.events.push_back({Duration(0), Kind::kStart, worker, NodeId(0)});
    }
  }
  const std::uint32_t spare = plan.job.workers - plan.job.min_workers;
  // So that workers have time to return before the job ends.
  const std::int64_t longest = 60'000 + span.count() / 3;
  Duration from(apart.between(0, longest));
  for (std::uint64_t jobs = 1 + apart.below(2); jobs > 0; --jobs) {
    plan.events.push_back({from, Kind::kPreemptingJob, apart.between(1, spare), NodeId(0)});
    from += Duration(apart.between(1000, longest));
    plan.events.push_back({from, Kind::kEndPreemptingJob, 0, NodeId(0)});
    from += Duration(apart.between(1000, longest));
  }
}

}  // namespace

Result<Faults> Faults::parse(std::string_view text) {
  Faults faults;
  if (text == "none") return faults;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    bool known = false;
    for (const auto& [name, member] : kNames) {
      const bool is_of_all = word == "all" && member != &Faults::stop;
      if (word != name && !is_of_all) continue;
      faults.*member = true;
      known = true;
    }
    if (!known) {
      return invalid(
          fmt::format("fault \"{}\" is unknown; choose all, none, drawn, or of drop, duplicate, "
                      "delay, reorder, partition, reconnect, pause, kill, join, slack, "
                      "restart, disk, checkpoint, server, drain, follow, shrink, stop",
                      word));
    }
  }
  return faults;
}

Faults Faults::draw(std::uint64_t seed) {
  Random apart(Random::mix(seed ^ 0x54a93ULL));
  const bool has_all = apart.chance(0.5);
  Faults faults;
  for (const auto& [name, member] : kNames) {
    if (member != &Faults::stop) faults.*member = has_all || apart.chance(0.5);
  }
  return faults;
}

Plan draw_plan(std::uint64_t seed, const PlanLimits& limits) {
  if (limits.draws_faults) {
    PlanLimits drawn = limits;
    drawn.draws_faults = false;
    drawn.faults = Faults::draw(seed);
    return draw_plan(seed, drawn);
  }
  Random random(Random::mix(seed));
  const Faults& allowed = limits.faults;
  Plan plan;
  plan.seed = seed;
  draw_job(plan, random, limits);
  draw_additions(plan, limits);
  draw_network(plan, random, allowed);
  draw_copies(plan, limits);
  draw_machines(plan);
  draw_start(plan);

  // If members join and leave, a run lasts for a few of their silences.
  const bool members_change =
      allowed.pause || allowed.kill || allowed.join || allowed.partition || allowed.server;
  const bool slow = (members_change || allowed.drain || allowed.shrink) && random.chance(0.5);
  plan.heartbeat_limit = Duration(400'000);
  plan.heartbeat_interval = Duration(40'000);
  plan.daemon_limits = limits.daemon_limits;
  // At least an eighth of a heartbeat (two fifths in daemons): with less, most messages of a run
  // are requests that are repeated while they wait.
  plan.resend = ResendPolicy(Duration(10'000), Duration(5000), Duration(200'000));
  const Duration clock =
      Duration(slow ? random.between(10'000, 30'000) : random.between(300, 3000));
  plan.compute_min = clock / 4;
  plan.compute_max = clock * 2;
  const Duration span = clock * plan.job.clocks * (slow ? 1 : 2) + Duration(20'000);
  EventDrawer(plan, random, span).draw(allowed);
  if (allowed.join) draw_late_workers(plan, span);
  if (allowed.checkpoint) draw_checkpoints(plan, span);
  const bool by_rows = draw_tables_by_rows(plan, limits);
  const bool replicates = !applies_some(plan.job) || chance_of_backups(plan.seed);
  if (allowed.drain && replicates) draw_drains(plan, span);
  draw_outages(plan, limits, span, replicates);
  draw_coordinator_outages(plan, allowed, span);
  if (allowed.follow && !by_rows) draw_followers(plan, span);
  if (allowed.shrink) draw_preempting_jobs(plan, span);
  if (allowed.stop) draw_stop(plan, span);
  // Drawn separately, as the servers that are killed. This may lose a process that lives.
  Random apart(Random::mix(plan.seed ^ 0xc105edULL));
  plan.tells_closed = members_change && apart.chance(0.5);
  plan.may_fail = members_change || allowed.restart || allowed.disk || allowed.stop;
  std::ranges::stable_sort(plan.events, {}, &Plan::Event::at);
  return plan;
}

bool Plan::answers_wait() const {
  return replication_interval > 0 && (logs_updates || applies_some(job));
}

}  // namespace taut::sim
