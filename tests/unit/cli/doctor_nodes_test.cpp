// What `tautline doctor --cluster` makes of the facts of every node.
#include <algorithm>

#include "cli/doctor/cluster_doctor.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

constexpr const char* kBuild = "tautline 1";

pb::NodeFacts node(const std::string& name, bool is_server, const std::string& host) {
  pb::NodeFacts facts;
  facts.set_name(name);
  facts.set_is_server(is_server);
  facts.set_host(host);
  facts.set_build(kBuild);
  facts.set_available_bytes(8ULL << 30U);
  if (is_server) {
    facts.set_table_limit_bytes(8ULL << 30U);
    facts.mutable_keys()->add_admitted("worker0 worker");
  }
  facts.mutable_keys()->set_folder("/keys");
  facts.mutable_keys()->set_mode(0700);
  pb::NodeClockReading& reading = *facts.add_clock();
  reading.set_sent(100);
  reading.set_received(100.002);
  reading.set_coordinator_s(100.001);
  return facts;
}

pb::LinkFacts& add_link(pb::NodeFacts& facts, const std::string& address, double megabytes_per_s) {
  pb::LinkFacts& link = *facts.add_links();
  link.set_address(address);
  link.set_connects(true);
  link.set_answers(true);
  link.set_round_trip_s(0.0002);
  link.set_sent_bytes(8'000'000);
  link.set_sent_s(8 / megabytes_per_s);
  return link;
}

pb::PathFacts& add_path(pb::NodeFacts& facts, const std::string& path, std::uint64_t inode,
                        const std::string& contents) {
  pb::PathFacts& one = *facts.add_paths();
  one.set_path(path);
  one.set_whole(path);
  one.set_exists(true);
  one.set_is_folder(true);
  one.set_is_writable(true);
  one.set_inode(inode);
  one.set_size(4);
  one.set_contents(contents);
  return one;
}

/// A server on one host and two workers on others, without a fault.
ClusterFacts good_cluster() {
  ClusterFacts cluster;
  cluster.nodes = {node("server0", true, "a"), node("worker0", false, "b"),
                   node("worker1", false, "c")};
  for (pb::NodeFacts& one : cluster.nodes) {
    add_path(one, "/data", one.is_server() ? 1 : 2, "abc");
    add_path(one, "/checkpoints", 7, "def");
    if (!one.is_server()) add_link(one, "10.0.0.1:7601", 100);
  }
  cluster.waited_s = 40;
  return cluster;
}

JobNeeds needs() {
  JobNeeds job;
  job.job = "lenet";
  job.parameter_bytes = 40'000'000;
  job.states = 1;
  job.paths = {{NeededPath::Use::kData, "/data"}, {NeededPath::Use::kCheckpoints, "/checkpoints"}};
  return job;
}

/// The gravest finding about something.
Finding gravest(const ClusterFacts& cluster, const std::string& about,
                const JobNeeds& job = needs()) {
  Finding found;
  for (const Finding& one : judge_cluster(cluster, job, kBuild)) {
    if (one.about == about && (found.about.empty() || one.verdict > found.verdict)) found = one;
  }
  INFO("no finding about " << about);
  REQUIRE_FALSE(found.about.empty());
  return found;
}

TEST_CASE("a cluster without a fault has a line for each aspect, and none is trouble", "[doctor]") {
  const Findings findings = judge_cluster(good_cluster(), needs(), kBuild);
  CHECK(worst(findings) == Verdict::kOk);
  for (const char* about : {"nodes", "links", "rates", "clocks", "keys", "paths", "memory"}) {
    INFO(about);
    CHECK(std::ranges::any_of(findings, [&](const Finding& one) { return one.about == about; }));
  }
  CHECK_THAT(gravest(good_cluster(), "nodes").found, Contains("3 processes of 3 hosts"));
  CHECK_THAT(gravest(good_cluster(), "rates").found,
             Contains("100 MB/s") && Contains("40.0 MB of updates of lenet take 0.400 s"));
}

TEST_CASE("a node that does not answer is named, and an empty cluster is trouble", "[doctor]") {
  ClusterFacts cluster = good_cluster();
  cluster.silent = {"worker2"};
  const Finding silent = gravest(cluster, "nodes");
  CHECK(silent.verdict == Verdict::kTrouble);
  CHECK_THAT(silent.found, Contains("1 of 4 processes") && Contains("40 s: worker2"));
  CHECK(worst(judge_cluster({}, needs(), kBuild)) == Verdict::kTrouble);
  cluster = good_cluster();
  cluster.nodes[2].set_build("tautline 2");
  CHECK_THAT(gravest(cluster, "release").found, Contains("worker1 (c) run tautline 2"));
}

TEST_CASE("a port that cannot be reached and a key that is refused have other advice", "[doctor]") {
  ClusterFacts cluster = good_cluster();
  pb::LinkFacts& link = *cluster.nodes[1].mutable_links(0);
  link.set_connects(false);
  link.set_answers(false);
  link.set_error("does not answer within 2 s");
  Finding found = gravest(cluster, "links");
  CHECK(found.verdict == Verdict::kTrouble);
  CHECK_THAT(found.found,
             Contains("worker0 (b) -> 10.0.0.1:7601: the shard does not answer within 2 s"));
  CHECK_THAT(found.advice, Contains("firewall"));
  link.set_connects(true);
  link.set_error("does not know this key");
  CHECK_THAT(gravest(cluster, "links").advice, Contains("tautline keys list"));
}

TEST_CASE("one slow link is a warning that names it", "[doctor]") {
  ClusterFacts cluster = good_cluster();
  cluster.nodes.push_back(node("worker2", false, "d"));
  add_link(cluster.nodes.back(), "10.0.0.1:7601", 20);
  const Finding slow = gravest(cluster, "rates");
  CHECK(slow.verdict == Verdict::kWarning);
  CHECK_THAT(slow.found, Contains("slowest worker2 (d) -> 10.0.0.1:7601 at 20 MB/s") &&
                             Contains("median 100 MB/s"));
  // A quarter of the median is usual where links are shared.
  cluster.nodes.back().mutable_links(0)->set_sent_s(8.0 / 25);
  CHECK(gravest(cluster, "rates").verdict == Verdict::kOk);
}

TEST_CASE("clocks that are apart beyond their uncertainty are a warning", "[doctor]") {
  ClusterFacts cluster = good_cluster();
  cluster.nodes[2].mutable_clock(0)->set_coordinator_s(101.001);
  const Finding skew = gravest(cluster, "clocks");
  CHECK(skew.verdict == Verdict::kWarning);
  CHECK_THAT(skew.found, Contains("worker1 (c) is 1000 ms behind"));
  cluster.nodes[2].mutable_clock(0)->set_received(103);
  CHECK(gravest(cluster, "clocks").verdict == Verdict::kOk);
  cluster.nodes[2].clear_clock();
  CHECK_THAT(gravest(cluster, "clocks").found, Contains("worker1 (c) could not ask"));
}

TEST_CASE("keys are private, and the same for every server", "[doctor]") {
  ClusterFacts cluster = good_cluster();
  cluster.nodes[1].mutable_keys()->set_mode(0750);
  const Finding open = gravest(cluster, "keys");
  CHECK(open.verdict == Verdict::kTrouble);
  CHECK_THAT(open.found, Contains("worker0 (b): /keys has the mode 0750"));
  CHECK_THAT(open.advice, Contains("chmod 700 /keys"));
  cluster = good_cluster();
  cluster.nodes.push_back(node("server1", true, "d"));
  cluster.nodes.back().mutable_keys()->add_admitted("worker1 worker");
  const Finding differ = gravest(cluster, "keys");
  CHECK(differ.verdict == Verdict::kTrouble);
  CHECK_THAT(differ.found, Contains("server0 (a): 1 key") && Contains("server1 (d): 2 keys"));
  cluster = good_cluster();
  cluster.nodes[0].mutable_keys()->set_insecure(true);
  CHECK(gravest(cluster, "keys").verdict == Verdict::kWarning);
}

TEST_CASE("data may be copied, and a folder of checkpoints is one", "[doctor]") {
  ClusterFacts cluster = good_cluster();
  // Another inode with the same contents.
  cluster.nodes[2].mutable_paths(0)->set_inode(99);
  CHECK(gravest(cluster, "paths").verdict == Verdict::kOk);
  cluster.nodes[2].mutable_paths(0)->set_contents("other");
  const Finding differ = gravest(cluster, "paths");
  CHECK(differ.verdict == Verdict::kTrouble);
  CHECK_THAT(differ.found, Contains("data /data is not the same everywhere") &&
                               Contains("worker1 (c): 4 entries"));
  cluster = good_cluster();
  cluster.nodes.push_back(node("server1", true, "d"));
  add_path(cluster.nodes.back(), "/checkpoints", 8, "def");
  CHECK_THAT(gravest(cluster, "paths").found, Contains("checkpoints /checkpoints is not the same"));
  cluster.nodes.back().mutable_paths(0)->set_inode(7);
  CHECK(gravest(cluster, "paths").verdict == Verdict::kOk);
  // A network file system shows an older time for a while: a healthy run does not end by it.
  cluster.nodes.back().mutable_paths(0)->set_changed_ns(5);
  const Finding older = gravest(cluster, "paths");
  CHECK(older.verdict == Verdict::kWarning);
  CHECK_THAT(older.found, Contains("checkpoints /checkpoints has one inode"));
  cluster.nodes.back().mutable_paths(0)->set_changed_ns(0);
  // A worker's view of it does not matter: it writes nothing there.
  cluster.nodes[1].mutable_paths(1)->set_exists(false);
  CHECK(gravest(cluster, "paths").verdict == Verdict::kOk);
}

TEST_CASE("a path that is missing, sealed or not allowed is trouble with its process", "[doctor]") {
  ClusterFacts cluster = good_cluster();
  cluster.nodes[1].mutable_paths(0)->set_exists(false);
  CHECK_THAT(gravest(cluster, "paths").found, Contains("data /data does not exist at worker0 (b)"));
  cluster = good_cluster();
  cluster.nodes[0].mutable_paths(1)->set_is_writable(false);
  CHECK_THAT(gravest(cluster, "paths").found, Contains("cannot be written by server0 (a)"));
  cluster = good_cluster();
  cluster.nodes[2].mutable_paths(0)->set_error("is outside of allowed_folders");
  CHECK_THAT(gravest(cluster, "paths").found, Contains("worker1 (c): is outside"));
  JobNeeds job = needs();
  job.paths.push_back({NeededPath::Use::kShared, "/elsewhere"});
  CHECK_THAT(gravest(good_cluster(), "paths", job).found, Contains("looked at by no process"));
}

TEST_CASE("memory is counted with states and backups, and for all processes of a host",
          "[doctor]") {
  ClusterFacts cluster = good_cluster();
  JobNeeds job = needs();
  // One server has no backup: 40 MB of values and as many of a state.
  CHECK_THAT(gravest(cluster, "memory").found, Contains("76.3 MiB at each of 1 server,"));
  cluster.nodes[0].set_table_limit_bytes(70'000'000);
  CHECK_THAT(gravest(cluster, "memory").found, Contains("server0 (a) needs 76.3 MiB"));
  cluster = good_cluster();
  cluster.nodes.push_back(node("server1", true, "a"));
  CHECK_THAT(gravest(cluster, "memory").found,
             Contains("76.3 MiB at each of 2 servers with backups"));
  job.backups = 0;
  CHECK_THAT(gravest(cluster, "memory", job).found, Contains("38.1 MiB at each of 2 servers,"));
  for (pb::NodeFacts& one : cluster.nodes) {
    if (one.host() == "a") one.set_available_bytes(100'000'000);
  }
  const Finding crowded = gravest(cluster, "memory");
  CHECK(crowded.verdict == Verdict::kTrouble);
  CHECK_THAT(crowded.found, Contains("a (server0, server1) needs 152.6 MiB"));
  cluster = good_cluster();
  cluster.nodes[1].set_device_free_bytes(1'000'000);
  CHECK_THAT(gravest(cluster, "memory").found, Contains("the devices of worker0 (b)"));
}

TEST_CASE("long lists of names are cut", "[doctor]") {
  CHECK(some_of({"a", "b"}) == "a, b");
  CHECK(some_of({"a", "b", "c", "d", "e", "f", "g", "h"}) == "a, b, c, d, e, f and 2 more");
}

}  // namespace
}  // namespace taut::cli
