#include "server/coordinator/placement/shard_placement.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/coordinator/placement/shard_status.hpp"
#include "tests/unit/coordinator/placement/placed_job.hpp"

namespace taut {
namespace {

using Catch::Matchers::Contains;
using test::Placement;

}  // namespace

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
  SECTION("not while the coordinator does not hear it either") {
    placement.report_silent(1, 1);
    const std::string other = "s" + std::to_string((placement.server_of(1) + 1) % 3);
    placement.hear(other, std::chrono::seconds(8));
    CHECK(placement.replace().empty());
    CHECK("s" + std::to_string(placement.server_of(1)) == name);
    placement.hear(name, std::chrono::seconds(9));
    CHECK(placement.replace().empty());
    CHECK("s" + std::to_string(placement.server_of(1)) != name);
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
