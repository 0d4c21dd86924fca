// A check of every node: ordered with heartbeats, answered with them, asked for again and again.
#include "server/coordinator/node_checks.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

pb::CheckNodesReply check(FakeCluster& cluster, std::uint64_t number) {
  pb::ControlMessage request;
  request.mutable_check_nodes()->set_number(number);
  request.mutable_check_nodes()->add_paths("/data");
  return cluster.ask(std::move(request)).check_nodes_reply();
}

/// What a process was ordered, of the check with this number.
std::vector<pb::NodeCheck> orders(const FakeCluster::Process& process, std::uint64_t number) {
  std::vector<pb::NodeCheck> found;
  for (const ControlEvent& event : process.events) {
    const auto* order = std::get_if<control_event::Check>(&event);
    if (order != nullptr && order->check.number() == number) found.push_back(order->check);
  }
  return found;
}

void answer(FakeCluster::Process& process, std::uint64_t number) {
  process.facts.set_number(number);
  process.facts.set_name("a lie");
  process.facts.set_host("host of " + process.name);
}

TEST_CASE("each process gets a check once, with the shards of all servers", "[doctor]") {
  FakeCluster cluster;
  cluster.add_server("s0", 2);
  cluster.add_server("s1");
  cluster.add_worker("w0");
  REQUIRE(cluster.run_until([&] { return cluster.at("w0").session->accepted(); }));
  cluster.run_for(2s);
  const auto begun = check(cluster, 5);
  CHECK(begun.error().empty());
  CHECK(begun.nodes().empty());
  CHECK(begun.waits_for_size() == 3);
  cluster.run_for(3s);
  for (const char* name : {"s0", "s1", "w0"}) {
    INFO(name);
    const auto ordered = orders(cluster.at(name), 5);
    REQUIRE(ordered.size() == 1);
    CHECK(ordered[0].shards_size() == 3);
    CHECK(ordered[0].paths(0) == "/data");
  }
}

TEST_CASE("facts are kept under the names that the coordinator knows", "[doctor]") {
  FakeCluster cluster;
  cluster.add_server("s0");
  cluster.add_worker("w0");
  cluster.run_for(2s);
  REQUIRE(check(cluster, 5).error().empty());
  cluster.run_for(2s);
  answer(cluster.at("w0"), 4);  // of another check
  cluster.run_for(2s);
  CHECK(check(cluster, 5).waits_for_size() == 2);
  answer(cluster.at("w0"), 5);
  cluster.run_for(2s);
  auto so_far = check(cluster, 5);
  REQUIRE(so_far.nodes_size() == 1);
  CHECK(so_far.nodes(0).name() == "w0");
  CHECK_FALSE(so_far.nodes(0).is_server());
  REQUIRE(so_far.waits_for_size() == 1);
  CHECK(so_far.waits_for(0) == "s0");
  // Another client must wait: until all have answered, or for a minute.
  CHECK_THAT(check(cluster, 6).error(), Contains("another check of the nodes has been running"));
  answer(cluster.at("s0"), 5);
  cluster.run_for(2s);
  CHECK(check(cluster, 5).nodes_size() == 2);
  CHECK(check(cluster, 6).error().empty());
  cluster.run_for(61s);
  CHECK(check(cluster, 7).error().empty());
}

TEST_CASE("a check that no process may order is refused with its numbers", "[doctor]") {
  FakeCluster cluster;
  CHECK_THAT(check(cluster, 0).error(), Contains("number 0"));
  pb::ControlMessage request;
  request.mutable_check_nodes()->set_number(1);
  request.mutable_check_nodes()->set_transfer_bytes(1U << 30U);
  CHECK_THAT(cluster.ask(std::move(request)).check_nodes_reply().error(), Contains("67108864"));
  const auto none = check(cluster, 2);
  CHECK(none.error().empty());
  CHECK(none.waits_for().empty());
}

}  // namespace
}  // namespace taut
