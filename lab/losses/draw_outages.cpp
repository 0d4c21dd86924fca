#include "lab/losses/draw_outages.hpp"

#include <algorithm>
#include <vector>

namespace taut::sim {
namespace {

using Kind = Plan::Event::Kind;

void add(Plan::Outage& outage, Duration at, Kind kind, std::int64_t value, NodeId towards = 0) {
  outage.events.push_back({at, kind, value, towards});
}

/// One server after another is killed and started again.
void draw_kills(Plan& plan, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0x5e74e4ULL));
  plan.replication_interval = static_cast<std::uint32_t>(apart.between(1, 4));
  // Rarely before the job runs: that ends it, as nothing has a backup yet.
  constexpr std::int64_t kStarted = 100'000;
  std::int64_t from = apart.between(apart.chance(0.1) ? 0 : kStarted, kStarted + span.count());
  for (std::uint64_t kills = 1 + apart.below(3); kills > 0; --kills) {
    const auto server = static_cast<std::int64_t>(apart.below(plan.servers));
    Plan::Outage& outage = plan.outages.emplace_back();
    outage.at = Duration(from);
    add(outage, Duration(0), Kind::kKillServer, server);
    // Before it is missed, or after.
    const Duration back(apart.between(1000, plan.heartbeat_limit.count() * 2));
    add(outage, back, Kind::kStartServer, server);
    from += back.count() + apart.between(1000, plan.heartbeat_limit.count() * 4);
  }
}

/// If a shard has more than one backup, another server is killed just before or after one.
void draw_second_kills(Plan& plan) {
  if (plan.replication_copies < 2) return;
  Random apart(Random::mix(plan.seed ^ 0x2b1115ULL));
  for (Plan::Outage& outage : plan.outages) {
    if (apart.chance(0.3)) continue;
    const Plan::Event first = outage.events.front();
    const std::int64_t other =
        first.value + 1 + static_cast<std::int64_t>(apart.below(plan.servers - 1));
    const std::int64_t server = other % plan.servers;
    // At once, or once its shards may have been taken over.
    const std::int64_t apart_by = apart.chance(0.5) ? 3000 : plan.heartbeat_limit.count() * 2;
    const Duration at(apart.between(-apart_by, apart_by));
    const Duration back(apart.between(1000, plan.heartbeat_limit.count() * 3));
    add(outage, at, Kind::kKillServer, server);
    add(outage, at + back, Kind::kStartServer, server);
  }
}

/// A server is silent for longer than the limit but lives on: it is paused, or the coordinator and
/// it do not hear each other, in one direction or in both, while workers do. Or it and another
/// process that it exchanges with are cut off from each other for as long.
void draw_zombie(Plan& plan, const Faults& faults, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0x20b1e5ULL));
  if (plan.replication_interval == 0 || plan.servers < 2 || apart.chance(0.5)) return;
  const NodeId server = plan.server_node(static_cast<std::uint32_t>(apart.below(plan.servers)));
  Plan::Outage outage;
  outage.at = Duration(apart.between(100'000, 100'000 + span.count()));
  const std::int64_t limit = plan.heartbeat_limit.count();
  const Duration length(apart.between(limit / 2, limit * 3));
  if (faults.pause && (!faults.partition || apart.chance(0.3))) {
    add(outage, Duration(0), Kind::kPause, server);
    add(outage, length, Kind::kResume, server);
  } else if (faults.partition) {
    NodeId other = Plan::kCoordinatorNode;
    if (apart.chance(0.4)) {
      const std::uint64_t others = plan.servers + plan.job.workers;
      other = plan.server_node(static_cast<std::uint32_t>(apart.below(others)));
      if (other == server) other = Plan::kCoordinatorNode;
    }
    const auto directions = static_cast<std::uint64_t>(apart.between(1, 3));
    const auto cut = [&](NodeId sender, NodeId receiver) {
      add(outage, Duration(0), Kind::kBlock, sender, receiver);
      add(outage, length, Kind::kUnblock, sender, receiver);
    };
    if ((directions & 1U) != 0) cut(server, other);
    if ((directions & 2U) != 0) cut(other, server);
  } else {
    return;
  }
  plan.outages.push_back(std::move(outage));
}

/// In some jobs an update counts once the backup has it. There, and in others, a worker is killed
/// with a server, just before it or just after.
void draw_logged_updates(Plan& plan, const PlanLimits& limits) {
  Random apart(Random::mix(plan.seed ^ 0x10995ULL));
  if (plan.replication_interval == 0) return;
  plan.logs_updates = apart.chance(0.3) || limits.logs_updates;
  if (!plan.logs_updates && !(limits.faults.kill && apart.chance(0.5))) return;
  for (Plan::Outage& outage : plan.outages) {
    const std::vector<Plan::Event> events = outage.events;
    for (const Plan::Event& event : events) {
      if (event.kind != Kind::kKillServer || apart.chance(0.3)) continue;
      const auto worker = static_cast<std::int64_t>(apart.below(plan.job.workers));
      // At the same time, or earlier by the heartbeat limit, so that its loss is noticed at about
      // the same time.
      const std::int64_t earlier = plan.logs_updates ? 0 : plan.heartbeat_limit.count();
      const std::int64_t nearly = plan.logs_updates ? 3000 : plan.heartbeat_interval.count();
      const Duration at = event.at - Duration(earlier + apart.between(-nearly, nearly));
      const Duration back(apart.between(1000, plan.heartbeat_limit.count() * 3));
      add(outage, at, Kind::kKill, worker);
      add(outage, at + back, Kind::kStart, worker);
    }
  }
}

/// The coordinator is on a server's machine, and is lost with it.
void draw_shared_machine(Plan& plan) {
  Random apart(Random::mix(plan.seed ^ 0xc04dULL));
  for (Plan::Outage& outage : plan.outages) {
    if (outage.events.front().kind != Kind::kKillServer || !apart.chance(0.2)) continue;
    const Duration back = outage.events[1].at;
    add(outage, Duration(0), Kind::kStopCoordinator, 0);
    add(outage, back, Kind::kStartCoordinator, 0);
  }
}

/// Outages that begin whether or not the previous ones are over are plain events.
void flatten(Plan& plan) {
  for (const Plan::Outage& outage : plan.outages) {
    for (Plan::Event event : outage.events) {
      event.at = std::max(outage.at + event.at, Duration(0));
      plan.events.push_back(event);
    }
  }
  plan.outages.clear();
}

}  // namespace

void draw_outages(Plan& plan, const PlanLimits& limits, Duration span, bool replicates) {
  const Faults& faults = limits.faults;
  if (faults.server && replicates) draw_kills(plan, span);
  draw_second_kills(plan);
  if (faults.server) draw_zombie(plan, faults, span);
  draw_logged_updates(plan, limits);
  if (faults.restart) draw_shared_machine(plan);
  Random apart(Random::mix(plan.seed ^ 0x0a17edULL));
  if (plan.servers < 2 || apart.chance(0.4)) {
    flatten(plan);
    return;
  }
  for (Plan::Outage& outage : plan.outages) {
    Duration first(0);
    for (const Plan::Event& event : outage.events) first = std::min(first, event.at);
    for (Plan::Event& event : outage.events) event.at = event.at - first;
    std::ranges::stable_sort(outage.events, {}, &Plan::Event::at);
  }
}

void draw_coordinator_outages(Plan& plan, const Faults& faults, Duration span) {
  Random apart(Random::mix(plan.seed ^ 0xd15cULL));
  const auto moment = [&] { return Duration(apart.between(0, span.count())); };
  const std::int64_t limit = plan.heartbeat_limit.count();
  if (faults.restart && apart.chance(0.2)) {
    Duration from = moment();
    for (std::uint64_t restarts = 1 + apart.below(3); restarts > 0; --restarts) {
      const Duration back = from + Duration(apart.between(1000, limit * 3));
      plan.events.push_back({from, Kind::kStopCoordinator, 0, NodeId(0)});
      plan.events.push_back({back, Kind::kStartCoordinator, 0, NodeId(0)});
      from = back + Duration(apart.between(1000, limit));
    }
  }
  if (!faults.disk) return;
  for (std::uint64_t full = apart.below(3); full > 0; --full) {
    const Duration from = moment();
    plan.events.push_back({from, Kind::kFillDisk, 0, NodeId(0)});
    plan.events.push_back(
        {from + Duration(apart.between(1000, limit * 2)), Kind::kFreeDisk, 0, NodeId(0)});
  }
  for (std::uint64_t tears = apart.below(3); tears > 0; --tears) {
    plan.events.push_back(
        {moment(), Kind::kTearSave, static_cast<std::int64_t>(apart.below(2)), NodeId(0)});
  }
}

}  // namespace taut::sim
