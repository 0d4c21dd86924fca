#include "server/coordinator/placement/shard_status.hpp"

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "proto/wire_version.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"
#include "tests/unit/coordinator/placement/placed_job.hpp"

namespace taut {
namespace {

using namespace std::chrono_literals;
using test::Placement;

}  // namespace

TEST_CASE("a running job whose shards have no backups says how many it has, and why",
          "[coordinator]") {
  const auto run = [](std::uint32_t interval, int servers) {
    FakeCluster cluster;
    cluster.options.replication_interval = interval;
    cluster.restart_coordinator(1ms);
    for (int i = 0; i < servers; ++i) cluster.add_server("s" + std::to_string(i), 2);
    cluster.add_worker("w0");
    cluster.run_for(1s);
    const std::uint64_t job = cluster.submit(make_job(1)).job();
    REQUIRE(cluster.run_until_state(job, pb::RUNNING));
    pb::JobStatus status = cluster.status(job);
    CHECK(status.has_no_backups() == status.shards().empty());
    CHECK(cluster.stop(job).error().empty());
    REQUIRE(cluster.run_until_state(job, pb::STOPPED));
    CHECK_FALSE(cluster.status(job).has_no_backups());
    return status;
  };
  const pb::JobStatus on_one = run(4, 1);
  CHECK(on_one.no_backups().shards() == 2);
  CHECK(on_one.no_backups().reason() == "the job started on one server");
  const pb::JobStatus without = run(0, 2);
  CHECK(without.no_backups().shards() == 4);
  CHECK(without.no_backups().reason() == "the job started with replication { interval: 0 }");
  CHECK_FALSE(run(4, 2).has_no_backups());
}

TEST_CASE("a status says how far a backup lags, as the shard's primary reports it",
          "[coordinator]") {
  Placement placement(3, 1, 1);
  std::map<std::string, std::vector<pb::ShardLoad>> loads;
  const auto report = [&](const std::string& server, int shard) -> pb::BackupLag& {
    pb::BackupLag& lag = *loads[server].emplace_back().add_backup_lags();
    lag.set_job(7);
    lag.set_shard(static_cast<std::uint32_t>(shard));
    lag.set_term(1);
    lag.set_choice(placement.job.stored().shards(shard).backups(0).choice());
    lag.set_behind_s(1.5);
    lag.set_behind_clocks(3);
    return lag;
  };
  const auto backup_of = [&](int number) {
    pb::JobStatus status;
    for (pb::ShardStatus& shard : shard_status(placement.job)) *status.add_shards() = shard;
    add_backup_lags(placement.job, loads, status);
    return status.shards(number).backups(0);
  };
  CHECK_FALSE(backup_of(0).has_behind_s());
  report("s0", 0);
  CHECK(backup_of(0).behind_s() == 1.5);
  CHECK(backup_of(0).behind_clocks() == 3);
  CHECK_FALSE(backup_of(1).has_behind_s());
  // Of an earlier term, of a former backup, of another job, from a server that does not serve it.
  report("s1", 1).set_term(0);
  report("s1", 1).set_choice(9);
  report("s1", 1).set_job(8);
  report("s0", 1);
  CHECK_FALSE(backup_of(1).has_behind_s());
  report("s1", 1);
  CHECK(backup_of(1).has_behind_s());
}

TEST_CASE("a status has clocks and slack from a server that lives", "[coordinator]") {
  // A job with a shard at the second of two servers, which have both reported its clocks.
  CoordinatorRecords records;
  pb::StoredJob& stored = records.jobs[JobId(7)];
  stored.set_job(7);
  stored.set_state(pb::RUNNING);
  stored.set_slots(1);
  stored.add_modes();
  stored.add_shards()->set_host(1);
  pb::Member& member = *stored.add_members()->mutable_member();
  member.set_name("w0");
  member.set_incarnation(3);
  member.set_leave_clock(Clock::never().value());
  for (std::uint32_t i = 0; i < 2; ++i) {
    pb::StoredServer& server = *stored.add_servers();
    server.set_name("s" + std::to_string(i));
    server.set_session(i + 1);
    server.set_incarnation(i + 1);
    server.set_first_shard(i);
    server.add_shard_addresses("h:" + std::to_string(i));
  }
  records.counters.set_next_incarnation(10);
  Coordinator coordinator({}, records, TimePoint());
  const auto say = [&](std::uint64_t peer, const pb::ControlMessage& message) {
    return coordinator.handle(PeerId(peer), message, TimePoint());
  };
  for (std::uint64_t i = 0; i < 2; ++i) {
    pb::ControlMessage message;
    pb::Hello& hello = *message.mutable_hello();
    hello.set_wire_version(kWireVersion);
    hello.set_role(pb::ROLE_SERVER);
    hello.set_name("s" + std::to_string(i));
    hello.set_session(i + 1);
    hello.add_shard_addresses("h:" + std::to_string(i));
    (void)say(i + 1, message);
    pb::ShardLoad& load = *message.mutable_heartbeat()->add_shards();
    load.mutable_clocks()->set_job(7);
    load.mutable_clocks()->set_version(i == 0 ? 5 : 9);
    load.set_dynamic_job(7);
    load.set_dynamic_slack(i == 0 ? 8 : 3);
    (void)say(i + 1, message);
  }
  const auto status = [&] {
    pb::ControlMessage request;
    request.mutable_status_request()->set_job(7);
    const auto output = say(9, request);
    for (const CoordinatorMessage& one : output.messages) {
      if (one.message.has_status_reply()) return one.message.status_reply().jobs(0);
    }
    return pb::JobStatus();
  };
  CHECK(status().clocks().version() == 5);
  CHECK(status().slack() == 8);
  pb::ControlMessage goodbye;
  goodbye.mutable_goodbye();
  (void)say(1, goodbye);
  CHECK(status().state() == pb::RUNNING);
  CHECK(status().clocks().version() == 9);
  CHECK(status().slack() == 3);
}

}  // namespace taut
