#include "server/coordinator/placement/backups.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/coordinator/placement/shard_status.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"
#include "tests/unit/coordinator/placement/placed_job.hpp"

namespace taut {
namespace {

using namespace std::chrono_literals;
using test::Placement;

}  // namespace

TEST_CASE("a shard gets backups on other servers, as many as it should have and there are",
          "[coordinator]") {
  const int servers = 3;
  for (const std::uint32_t copies : {1U, 2U, 5U}) {
    Placement placement(servers, 2, copies);
    for (int shard = 0; shard < 2 * servers; ++shard) {
      const auto backups = placement.backups_of(shard);
      CHECK(backups.size() == std::min<std::size_t>(copies, servers - 1));
      CHECK_FALSE(backups.contains(placement.server_of(shard)));
    }
  }
}

TEST_CASE("a backup is on another machine than its primary and other backups, if there is one",
          "[coordinator]") {
  Placement placement(4, 2, 1, {"a", "a", "b", "b"});
  const auto machine_of = [](int server) { return server / 2; };
  for (int shard = 0; shard < 8; ++shard) {
    const auto backups = placement.backups_of(shard);
    REQUIRE(backups.size() == 1);
    CHECK(machine_of(backups.begin()->first) != machine_of(placement.server_of(shard)));
  }
  Placement two(4, 1, 2, {"a", "b", "b", "c"});
  for (int shard = 0; shard < 4; ++shard) {
    std::set<std::string> used{std::vector<std::string>{"a", "b", "b", "c"}.at(
        static_cast<std::size_t>(two.server_of(shard)))};
    for (const auto& [server, choice] : two.backups_of(shard)) {
      used.insert(
          std::vector<std::string>{"a", "b", "b", "c"}.at(static_cast<std::size_t>(server)));
    }
    CHECK(used.size() == 3);
  }
}

TEST_CASE("backups move to another machine once there is one, and are never fewer meanwhile",
          "[coordinator]") {
  Placement placement(2, 1, 1, {"a", "a"});
  CHECK(placement.backups_of(0) == std::map<int, std::uint64_t>{{1, 1}});
  placement.report_whole();
  placement.join("s2", 1, "b");
  for (int step = 0; step < 8; ++step) {
    CHECK(placement.replace().empty());
    for (int shard = 0; shard < 2; ++shard) CHECK_FALSE(placement.backups_of(shard).empty());
    placement.report_whole();
  }
  for (int shard = 0; shard < 2; ++shard) {
    const auto backups = placement.backups_of(shard);
    REQUIRE(backups.size() == 1);
    CHECK(backups.begin()->first == 2);
  }
}

TEST_CASE(
    "a server on another machine that was given up is not tried again where there is a backup",
    "[coordinator]") {
  Placement placement(2, 1, 1, {"a", "a"});
  placement.report_whole();
  placement.join("s2", 1, "b");
  CHECK(placement.replace().empty());  // it is known
  placement.acknowledge();
  CHECK(placement.replace().empty());
  int shard = placement.backups_of(0).size() == 2 ? 0 : 1;
  REQUIRE(placement.backups_of(shard).contains(2));
  pb::BackupProblem& problem = *placement.job.servers.at(2).reply.add_problems();
  problem.set_shard(static_cast<std::uint32_t>(shard));
  problem.set_term(1);
  problem.set_choice(placement.backups_of(shard).at(2));
  problem.set_reason("there is no memory");
  CHECK(placement.replace().empty());
  CHECK_FALSE(placement.backups_of(shard).contains(2));
  placement.job.servers.at(2).reply.clear_problems();
  placement.job.given_up.clear();  // as after a minute
  for (int step = 0; step < 8; ++step) {
    placement.report_whole();
    CHECK(placement.replace().empty());
    CHECK_FALSE(placement.backups_of(shard).contains(2));
  }
}

TEST_CASE("of two backups the one that reports a problem is replaced, not the other",
          "[coordinator]") {
  Placement placement(4, 1, 2);
  placement.report_whole();
  const auto before = placement.backups_of(0);
  REQUIRE(before.size() == 2);
  const auto [server, choice] = *before.begin();
  const auto [other, its_choice] = *before.rbegin();
  pb::BackupProblem& problem = *placement.job.servers[0].reply.add_problems();
  problem.set_term(1);
  problem.set_choice(choice);
  problem.set_reason("it is behind");
  CHECK(placement.replace().empty());
  const auto after = placement.backups_of(0);
  CHECK(after.size() == 2);
  CHECK_FALSE(after.contains(server));
  CHECK(after.at(other) == its_choice);
}

TEST_CASE("a server that joins is one more backup of a shard before it serves it",
          "[coordinator]") {
  Placement placement(2, 2, 1);
  placement.report_whole();
  placement.join("s2", 2);
  std::vector<std::map<int, std::uint64_t>> before;
  before.reserve(4);
  for (int shard = 0; shard < 4; ++shard) before.push_back(placement.backups_of(shard));
  CHECK(placement.replace().empty());
  placement.acknowledge();
  CHECK(placement.replace().empty());
  int moving = -1;
  for (int shard = 0; shard < 4; ++shard) {
    const auto backups = placement.backups_of(shard);
    for (const auto& [server, choice] : before[static_cast<std::size_t>(shard)]) {
      CHECK(backups.at(server) == choice);
    }
    if (backups.size() > 1) moving = shard;
  }
  REQUIRE(moving >= 0);
  // It waits until the images are whole, and no other shard is chosen meanwhile.
  placement.acknowledge();
  CHECK(placement.replace().empty());
  CHECK(placement.backups() == 5);
  placement.report_whole();
  CHECK(placement.replace().empty());
  CHECK(placement.server_of(moving) == 2);
  CHECK(placement.backups_of(moving) == before[static_cast<std::size_t>(moving)]);
}

TEST_CASE("a shard moves to its only backup once another one has its images", "[coordinator]") {
  // Shards 0 and 1 are on s0 with backups on s1, which has lost its own two.
  Placement placement(2, 2, 1);
  placement.report_whole();
  placement.lose("s1");
  CHECK(placement.replace().empty());
  placement.join("s1", 2);
  placement.join("s2", 2);
  CHECK(placement.replace().empty());
  for (int round = 0; round < 20; ++round) {
    placement.report_whole();
    CHECK(placement.replace().empty());
    for (const pb::ShardStatus& status : shard_status(placement.job)) CHECK(status.is_protected());
  }
  std::map<int, int> shards;
  for (int shard = 0; shard < 4; ++shard) ++shards[placement.server_of(shard)];
  CHECK(shards.size() == 3);
  for (const pb::ShardStatus& status : shard_status(placement.job)) {
    CHECK(status.wanted_backups() == 1);
    CHECK(status.backups_size() == 1);
  }
}

TEST_CASE("a server that leaves stays a backup meanwhile only if it has all of the shard",
          "[coordinator]") {
  Placement placement(4, 1, 1);
  placement.report_whole();
  placement.registry.drain(pb::ROLE_SERVER, "s2");
  CHECK(placement.replace().empty());
  const auto chosen = placement.backups_of(2);
  REQUIRE(chosen.size() == 1);
  const int leaving = chosen.begin()->first;
  REQUIRE(leaving != 2);
  SECTION("it has not") {
    placement.registry.drain(pb::ROLE_SERVER, "s" + std::to_string(leaving));
    CHECK(placement.replace().empty());
    const auto after = placement.backups_of(2);
    REQUIRE(after.size() == 1);
    CHECK_FALSE(after.contains(2));
    CHECK_FALSE(after.contains(leaving));
  }
  SECTION("it has, and stays until another one has") {
    placement.report_whole();
    placement.registry.drain(pb::ROLE_SERVER, "s" + std::to_string(leaving));
    CHECK(placement.replace().empty());
    CHECK(placement.backups_of(2).size() == 2);
    CHECK(placement.backups_of(2).at(leaving) == chosen.at(leaving));
    placement.report_whole();
    CHECK(placement.replace().empty());
    CHECK(placement.backups_of(2).size() == 1);
    CHECK_FALSE(placement.backups_of(2).contains(leaving));
  }
}

TEST_CASE("a server that could not keep images is tried again later, though it reports nothing new",
          "[coordinator]") {
  FakeCluster cluster;
  cluster.options.replication_interval = 1;
  cluster.restart_coordinator(1ms);
  cluster.add_server("s0");
  cluster.add_server("s1").server.memory = "there is no memory";
  cluster.add_worker("w0");
  cluster.run_for(1s);
  const std::uint64_t job = cluster.submit(make_job(1)).job();
  REQUIRE(cluster.run_until_state(job, pb::RUNNING));
  const auto first_shard = [&] { return cluster.status(job).shards(0); };
  REQUIRE(cluster.run_until([&] { return first_shard().backups().empty(); }, 5s));
  CHECK(first_shard().problem() == "server \"s1\": there is no memory");
  cluster.at("s1").server.memory.clear();
  cluster.run_for(50s);
  CHECK(first_shard().backups().empty());
  CHECK(cluster.run_until([&] { return first_shard().backups_size() == 1; }, 15s));
}

}  // namespace taut
