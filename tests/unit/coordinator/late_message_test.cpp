#include <optional>

#include "proto/wire_version.hpp"
#include "server/coordinator/coordinator.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;

namespace taut {
namespace {

const PeerId kServer0(1);
const PeerId kServer1(2);
const PeerId kWorker(3);
const PeerId kClient(4);

/// A coordinator with two servers and a worker, whose messages the test writes by hand.
struct ByHand {
  ByHand() {
    hello(kServer0, pb::ROLE_SERVER, "s0");
    hello(kServer1, pb::ROLE_SERVER, "s1");
    life = hello(kWorker, pb::ROLE_WORKER, "w0");
    pb::ControlMessage submit;
    *submit.mutable_submit()->mutable_definition() = make_job(1);
    handle(kClient, submit);
    reply(kServer0, 1, 0);
    reply(kServer1, 1, 0);
    REQUIRE(worker_job);
  }

  void handle(PeerId from, const pb::ControlMessage& message) {
    take(coordinator.handle(from, message, now));
  }
  void take(const CoordinatorOutput& output) {
    for (const CoordinatorMessage& outgoing : output.messages) {
      const pb::ControlMessage& message = outgoing.message;
      if (message.has_hello_reply()) hello_reply = message.hello_reply();
      if (message.has_server_job()) server_job = message.server_job();
      if (message.has_worker_job()) worker_job = message.worker_job();
      if (message.has_status_reply()) state = message.status_reply().jobs(0).state();
    }
  }
  std::uint64_t hello(PeerId from, pb::Role role, const std::string& name) {
    pb::ControlMessage message;
    pb::Hello& hello = *message.mutable_hello();
    hello.set_wire_version(kWireVersion);
    hello.set_role(role);
    hello.set_name(name);
    if (role == pb::ROLE_SERVER) hello.add_shard_addresses(name + ":1");
    handle(from, message);
    return hello_reply.incarnation();
  }
  void reply(PeerId from, std::uint64_t revision, std::int64_t max_done) {
    pb::ControlMessage message;
    message.mutable_server_job_reply()->set_job(1);
    message.mutable_server_job_reply()->set_revision(revision);
    message.mutable_server_job_reply()->set_max_done(max_done);
    handle(from, message);
  }
  void progress(std::uint64_t incarnation, const std::string& error) {
    pb::ControlMessage message;
    pb::Progress& progress = *message.mutable_heartbeat()->mutable_progress();
    progress.set_job(1);
    progress.set_revision(1);
    progress.set_incarnation(incarnation);
    progress.set_error(error);
    handle(kWorker, message);
  }
  pb::JobState job_state() {
    pb::ControlMessage message;
    message.mutable_status_request();
    handle(kClient, message);
    return state;
  }

  TimePoint now{1h};
  Coordinator coordinator{{}, {}, now};
  std::uint64_t life = 0;
  pb::HelloReply hello_reply;
  pb::ServerJob server_job;
  std::optional<pb::WorkerJob> worker_job;
  pb::JobState state = pb::SUBMITTED;
};

}  // namespace

TEST_CASE("a late answer to an earlier revision does not hide a newer one",
          "[coordinator][epoch]") {
  ByHand by_hand;
  pb::ControlMessage change;
  change.mutable_set_slack()->set_job(1);
  by_hand.handle(kClient, change);
  REQUIRE(by_hand.server_job.revision() == 2);
  by_hand.reply(kServer0, 2, 100);
  by_hand.reply(kServer0, 1, 0);
  by_hand.reply(kServer1, 2, 0);
  CHECK(by_hand.server_job.revision() == 3);
  CHECK(by_hand.server_job.modes_size() == 1);
  CHECK(by_hand.server_job.hold_from() > 100);
  by_hand.reply(kServer0, 3, 100);
  by_hand.reply(kServer1, 3, 50);
  REQUIRE(by_hand.server_job.modes_size() == 2);
  CHECK(by_hand.server_job.modes(1).first_clock() > 100);
}

TEST_CASE("an answer to a revision that was never sent is not believed", "[coordinator][epoch]") {
  ByHand by_hand;
  by_hand.reply(kServer0, 50, 0);
  by_hand.reply(kServer1, 50, 0);
  pb::ControlMessage change;
  change.mutable_set_slack()->set_job(1);
  by_hand.handle(kClient, change);
  CHECK(by_hand.server_job.revision() == 2);
  CHECK(by_hand.server_job.modes_size() == 1);
}

TEST_CASE("reports of a worker's earlier incarnation do not affect its job", "[coordinator]") {
  ByHand by_hand;
  by_hand.progress(by_hand.life + 1000, "the disk is gone");
  CHECK(by_hand.job_state() == pb::RUNNING);
  by_hand.progress(by_hand.life, "the disk is gone");
  CHECK(by_hand.job_state() == pb::FAILED);
}

TEST_CASE("unacknowledged messages are sent again, and at once over a new connection",
          "[coordinator]") {
  ByHand by_hand;
  by_hand.worker_job.reset();
  by_hand.now = by_hand.now + 400ms;
  by_hand.take(by_hand.coordinator.tick(by_hand.now));
  CHECK_FALSE(by_hand.worker_job);
  by_hand.now = by_hand.now + 100ms;
  by_hand.take(by_hand.coordinator.tick(by_hand.now));
  CHECK(by_hand.worker_job);
  by_hand.worker_job.reset();
  by_hand.hello(PeerId(9), pb::ROLE_WORKER, "w0");
  CHECK(by_hand.worker_job);
}

}  // namespace taut
