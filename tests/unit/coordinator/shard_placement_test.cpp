#include "server/coordinator/placement/shard_placement.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/wire_version.hpp"
#include "server/coordinator/job_life.hpp"
#include "server/coordinator/placement/shard_status.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

namespace taut {
namespace {

using Catch::Matchers::Contains;
using namespace std::chrono_literals;

/// A running job on servers named s0, s1, ..., and what they report of the images that they keep.
class Placement {
 public:
  /// machines  of the servers; fewer: they are not known
  Placement(int servers, int hosts_each, std::uint32_t copies,
            const std::vector<std::string>& machines = {}) {
    for (int i = 0; i < servers; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const std::string machine = place < machines.size() ? machines[place] : "";
      const Participant& server = join("s" + std::to_string(i), hosts_each, machine);
      pb::StoredServer& chosen = *job.change().add_servers();
      chosen.set_name(server.name);
      chosen.set_incarnation(server.incarnation.value());
      chosen.set_first_shard(static_cast<std::uint32_t>(i * hosts_each));
      for (const std::string& address : server.shard_addresses) chosen.add_shard_addresses(address);
      job.servers.emplace_back();
    }
    place_shards(job, registry, {4, copies});
  }

  Participant& join(const std::string& name, int hosts, const std::string& machine = "") {
    pb::Hello hello;
    hello.set_role(pb::ROLE_SERVER);
    hello.set_name(name);
    hello.set_session(++session_);
    hello.set_host(machine);
    for (int i = 0; i < hosts; ++i) hello.add_shard_addresses(name + ":" + std::to_string(i + 1));
    Participant* joined = registry.greet(PeerId(session_), hello, TimePoint()).participant;
    REQUIRE(joined != nullptr);
    servers_[name] = joined;
    return *joined;
  }
  void add_members(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      pb::Hello hello;
      hello.set_role(pb::ROLE_WORKER);
      hello.set_name("w" + std::to_string(i));
      hello.set_session(++session_);
      const Participant* joined = registry.greet(PeerId(session_), hello, TimePoint()).participant;
      REQUIRE(joined != nullptr);
      pb::Member member;
      member.set_worker(i);
      member.set_name(joined->name);
      member.set_incarnation(joined->incarnation.value());
      member.set_leave_clock(Clock::never().value());
      job.add_member(member, session_, "");
      job.workers.back().notified = true;
    }
  }
  /// A worker reports that a shard owes it an answer, or that none does.
  void report_silent(int member, std::optional<std::uint32_t> shard, std::uint64_t term = 1) {
    pb::Progress progress = job.stored().members(member).progress();
    progress.clear_silent();
    if (shard) {
      progress.mutable_silent()->set_shard(*shard);
      progress.mutable_silent()->set_term(term);
    }
    job.take_progress(member, progress, TimePoint());
  }
  void lose(const std::string& name) { registry.lose(*servers_.at(name), "was killed"); }
  /// Each backup has an image of every slice.
  void report_whole() {
    const pb::StoredJob& stored = job.stored();
    for (auto& server : job.servers) server.reply.clear_copies();
    for (int number = 0; number < stored.shards_size(); ++number) {
      for (const pb::StoredBackup& one : stored.shards(number).backups()) {
        auto& reply = job.servers.at(static_cast<std::size_t>(job.server_of(one.host()))).reply;
        reply.set_revision(stored.revision());
        pb::ShardCopy& copy = *reply.add_copies();
        copy.set_shard(static_cast<std::uint32_t>(number));
        copy.set_choice(one.choice());
        copy.set_complete(true);
      }
    }
    acknowledge();
  }
  /// Every server has the newest revision.
  void acknowledge() {
    for (auto& server : job.servers) server.delivery.acknowledge(job.stored().revision());
  }
  [[nodiscard]] std::size_t backups() const {
    std::size_t count = 0;
    for (int i = 0; i < job.stored().shards_size(); ++i) count += backups_of(i).size();
    return count;
  }
  std::string replace() { return replace_servers(job, registry, TimePoint(), tasks, notes); }
  /// Whether the next step of the coordinator looks at the shards: what was given up long ago is
  /// forgotten only then.
  bool looks() {
    constexpr std::uint32_t kNoShard = 1000;
    job.given_up.push_back({kNoShard, 0, TimePoint(), "given up long ago"});
    note_losses(job, registry, TimePoint(), tasks, notes);
    REQUIRE_FALSE(job.stored().closing());
    return std::erase_if(job.given_up,
                         [](const JobRecord::GivenUp& one) { return one.shard == kNoShard; }) == 0;
  }
  /// All is as it should be, and the coordinator has seen that.
  void settle() {
    report_whole();
    job.placement_due = true;
    for (int step = 0; step < 20 && looks(); ++step) report_whole();
    REQUIRE_FALSE(looks());
  }
  [[nodiscard]] int server_of(int shard) const {
    return job.server_of(job.stored().shards(shard).host());
  }
  [[nodiscard]] std::map<int, std::uint64_t> backups_of(int shard) const {
    std::map<int, std::uint64_t> choices;
    for (const pb::StoredBackup& one : job.stored().shards(shard).backups()) {
      choices[job.server_of(one.host())] = one.choice();
    }
    return choices;
  }

  Registry registry{15s, 1};
  JobRecord job{running(), TimePoint()};
  CheckpointTasks tasks;
  Notes notes;

 private:
  static pb::StoredJob running() {
    pb::StoredJob stored;
    stored.set_job(7);
    stored.set_state(pb::RUNNING);
    return stored;
  }

  std::uint64_t session_ = 0;
  std::map<std::string, Participant*> servers_;
};

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

TEST_CASE("two servers are lost at once, and the third has all shards", "[coordinator]") {
  Placement placement(3, 1, 2);
  placement.report_whole();
  placement.lose("s0");
  placement.lose("s2");
  CHECK(placement.replace().empty());
  for (int shard = 0; shard < 3; ++shard) {
    CHECK(placement.server_of(shard) == 1);
    CHECK(placement.backups_of(shard).empty());
  }
}

TEST_CASE("a server that answers no worker is given up where others have all that it serves",
          "[coordinator]") {
  Placement placement(3, 1, 1);
  placement.add_members(2);
  placement.settle();
  const std::string name = "s" + std::to_string(placement.server_of(1));
  placement.report_silent(0, 1);
  SECTION("not while another worker gets answers") {
    placement.report_silent(1, std::nullopt);
    CHECK(placement.replace().empty());
    CHECK("s" + std::to_string(placement.server_of(1)) == name);
  }
  SECTION("not for what was asked of another server") {
    placement.report_silent(1, 1, 7);
    CHECK(placement.replace().empty());
    CHECK("s" + std::to_string(placement.server_of(1)) == name);
  }
  SECTION("not where its backup is not whole") {
    placement.report_silent(1, 1);
    for (auto& server : placement.job.servers) server.reply.clear_copies();
    CHECK(placement.replace().empty());
    CHECK("s" + std::to_string(placement.server_of(1)) == name);
  }
  SECTION("not before a server that is dead") {
    placement.report_silent(1, 1);
    const auto backups = placement.backups_of(1);
    placement.lose("s" + std::to_string(backups.begin()->first));
    CHECK(placement.replace().empty());
    CHECK("s" + std::to_string(placement.server_of(1)) == name);
  }
  SECTION("nor for a worker that does not know of the job yet") {
    placement.report_silent(1, std::nullopt);
    placement.job.workers[1].notified = false;
    CHECK(placement.replace().empty());
    CHECK("s" + std::to_string(placement.server_of(1)) != name);
  }
  SECTION("once all report it, and not again for what was reported before") {
    placement.report_silent(1, 1);
    CHECK(placement.looks());
    CHECK("s" + std::to_string(placement.server_of(1)) != name);
    const auto says_so = [&](const Note& note) {
      return note.text == "job 7: server \"" + name +
                              "\" answers no worker, and takes no work until it is restarted";
    };
    CHECK(std::any_of(placement.notes.begin(), placement.notes.end(), says_so));
    const int now = placement.server_of(1);
    placement.report_whole();
    CHECK(placement.replace().empty());
    CHECK(placement.server_of(1) == now);
    CHECK_FALSE(placement.job.stored().servers(now).lost());
  }
}

TEST_CASE("a server is given up where workers wait for different shards of it", "[coordinator]") {
  Placement placement(3, 2, 1);
  placement.add_members(2);
  placement.settle();
  const int server = placement.server_of(1);
  std::vector<int> served;
  for (int shard = 0; shard < 6; ++shard) {
    if (placement.server_of(shard) == server) served.push_back(shard);
  }
  REQUIRE(served.size() == 2);
  placement.report_silent(0, static_cast<std::uint32_t>(served[0]));
  placement.report_silent(1, static_cast<std::uint32_t>(served[1]));
  CHECK(placement.replace().empty());
  for (const int shard : served) CHECK(placement.server_of(shard) != server);
  const pb::StoredServer& lost = placement.job.stored().servers(server);
  CHECK(lost.lost());
  CHECK(lost.given_up());
}

TEST_CASE("what workers had reported of silent shards is forgotten when a coordinator restarts",
          "[coordinator]") {
  Placement placement(3, 1, 1);
  placement.add_members(1);
  placement.report_silent(0, 1);
  REQUIRE(placement.job.stored().members(0).progress().has_silent());
  const JobRecord recovered = JobRecord::recover(placement.job.stored(), TimePoint());
  CHECK_FALSE(recovered.stored().members(0).progress().has_silent());
}

TEST_CASE("a take-over withdraws the join or the mode that is being prepared, and not a leave",
          "[coordinator]") {
  Placement placement(3, 1, 1);
  placement.report_whole();
  const auto kind = GENERATE(pb::EpochChange::JOIN, pb::EpochChange::MODE, pb::EpochChange::LEAVE);
  placement.job.change().mutable_preparing()->set_kind(kind);
  placement.job.change().set_hold_from(40);
  SECTION("where no server is lost it stays") {
    CHECK(placement.replace().empty());
    CHECK(placement.job.stored().has_preparing());
    CHECK(placement.job.stored().hold_from() == 40);
  }
  SECTION("what was held counts on servers that are gone") {
    placement.lose("s1");
    CHECK(placement.replace().empty());
    const bool is_leave = kind == pb::EpochChange::LEAVE;
    CHECK(placement.job.stored().has_preparing() == is_leave);
    CHECK((placement.job.stored().hold_from() == Clock::never().value()) != is_leave);
  }
}

TEST_CASE("the backup that does not take over stays one by the same choice, and is still whole",
          "[coordinator]") {
  Placement placement(3, 1, 2);
  placement.report_whole();
  const auto before = placement.backups_of(0);
  placement.lose("s0");
  CHECK(placement.replace().empty());
  const int successor = placement.server_of(0);
  REQUIRE(before.contains(successor));
  const auto after = placement.backups_of(0);
  REQUIRE(after.size() == 1);
  CHECK(after.begin()->second == before.at(after.begin()->first));
  CHECK(shard_status(placement.job).at(0).is_protected());
  // The successor is lost before it has sent an image.
  placement.lose("s" + std::to_string(successor));
  CHECK(placement.replace().empty());
  CHECK(placement.server_of(0) == after.begin()->first);
  CHECK(placement.job.stored().shards(0).term() == 3);
}

TEST_CASE("a shard whose backups are lost with its server is lost, and the reason says so",
          "[coordinator]") {
  SECTION("with its only backup") {
    Placement placement(3, 1, 1);
    placement.report_whole();
    placement.lose("s0");
    placement.lose("s1");
    CHECK_THAT(placement.replace(), Contains("is lost with it: so is its backup"));
  }
  SECTION("with both") {
    Placement placement(4, 1, 2);
    placement.report_whole();
    for (const char* name : {"s0", "s1", "s2"}) placement.lose(name);
    CHECK_THAT(placement.replace(), Contains("is lost with it: so are its backups"));
  }
  SECTION("before one was whole") {
    Placement placement(3, 1, 2);
    placement.lose("s0");
    for (auto& server : placement.job.servers) server.reply.set_revision(1);
    CHECK_THAT(placement.replace(), Contains("does not have all of it yet"));
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

TEST_CASE("the coordinator looks at the shards only where something has changed", "[coordinator]") {
  Placement placement(3, 1, 1);
  CHECK(placement.looks());  // as after its start
  placement.settle();
  SECTION("nothing") {}
  SECTION("a server joins") {
    placement.join("s3", 1);
    CHECK(placement.looks());
    CHECK(placement.job.stored().servers_size() == 4);
  }
  SECTION("a server is lost") {
    placement.lose("s0");
    CHECK(placement.looks());
    CHECK(placement.job.stored().servers(0).lost());
  }
  SECTION("a server is asked to leave") {
    placement.registry.drain(pb::ROLE_SERVER, "s0");
    CHECK(placement.looks());
    CHECK(placement.server_of(0) != 0);
  }
  SECTION("the record of the job") {
    placement.job.change().set_message("another one");
    CHECK(placement.looks());
  }
  SECTION("the time, at a tick") {
    placement.job.placement_due = true;
    CHECK(placement.looks());
  }
  placement.settle();  // afterwards it does not look again
}

TEST_CASE("a server's report has the shards looked at where it says something new of them",
          "[coordinator]") {
  Placement placement(3, 1, 1);
  placement.settle();
  const int server = 1;
  const pb::ServerJobReply former = placement.job.servers.at(server).reply;
  REQUIRE(former.copies_size() == 1);
  const auto looks_after = [&](const std::function<void(pb::ServerJobReply&)>& change) {
    pb::ServerJobReply report = former;
    change(report);
    placement.job.take_reply(server, report);
    return placement.looks();
  };
  SECTION("the same") {
    CHECK_FALSE(looks_after([](pb::ServerJobReply&) {}));
  }
  SECTION("how far it is") {
    CHECK_FALSE(looks_after([](pb::ServerJobReply& report) {
      report.set_max_done(9);
      report.set_min_version(7);
    }));
  }
  SECTION("an image is not whole") {
    CHECK(looks_after(
        [](pb::ServerJobReply& report) { report.mutable_copies(0)->set_complete(false); }));
    CHECK(looks_after([](pb::ServerJobReply&) {}));  // and again it is
  }
  SECTION("the image is one of an earlier choice") {
    CHECK(looks_after([](pb::ServerJobReply& report) { report.mutable_copies(0)->set_choice(0); }));
  }
  SECTION("the image is another shard's") {
    CHECK(looks_after([](pb::ServerJobReply& report) { report.mutable_copies(0)->set_shard(2); }));
  }
  SECTION("an image is gone") {
    CHECK(looks_after([](pb::ServerJobReply& report) { report.clear_copies(); }));
  }
  SECTION("one more image") {
    CHECK(looks_after([](pb::ServerJobReply& report) { report.add_copies()->set_shard(2); }));
  }
  SECTION("it cannot keep an image, and then it can") {
    CHECK(looks_after([](pb::ServerJobReply& report) { report.add_problems(); }));
    CHECK(looks_after([](pb::ServerJobReply&) {}));
  }
  SECTION("a shard waits for what members repeat, and then it has it") {
    CHECK(looks_after([](pb::ServerJobReply& report) { report.set_settling(true); }));
    CHECK(looks_after([](pb::ServerJobReply&) {}));
  }
  SECTION("it has the newest revision") {
    placement.job.revise();
    CHECK_FALSE(placement.looks());
    CHECK(looks_after([&](pb::ServerJobReply& report) {
      report.set_revision(placement.job.stored().revision());
    }));
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

TEST_CASE("a state that names one backup of each shard is read", "[coordinator][store]") {
  Placement placement(2, 1, 1);
  pb::StoredJob stored = placement.job.stored();
  for (pb::StoredShard& shard : *stored.mutable_shards()) {
    shard.set_backup(shard.backups(0).host());
    shard.clear_backups();
  }
  stored.clear_replication_copies();
  const JobRecord job = JobRecord::recover(stored, TimePoint());
  for (int shard = 0; shard < 2; ++shard) {
    REQUIRE(job.stored().shards(shard).backups_size() == 1);
    CHECK(job.stored().shards(shard).backups(0).host() == static_cast<std::uint32_t>(1 - shard));
    CHECK(job.stored().shards(shard).backups(0).choice() == job.stored().shards(shard).copy());
  }
}

}  // namespace taut
