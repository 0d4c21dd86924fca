#include "proto/session/control_client.hpp"

#include <atomic>
#include <mutex>
#include <set>

#include "cli/doctor/cluster_doctor.hpp"
#include "cli/submitted_job.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/wire_version.hpp"
#include "tests/e2e/fake_coordinator.hpp"
#include "tests/support/catch.hpp"

namespace taut::cli {
namespace {

using test::FakeCoordinator;

pb::ControlMessage accepted() {
  pb::ControlMessage answer;
  answer.mutable_hello_reply()->set_accepted(true);
  answer.mutable_hello_reply()->set_wire_version(kWireVersion);
  return answer;
}

TEST_CASE("a missing coordinator is reported after the deadline, with a remedy", "[cli]") {
  ZmqContext context{Security::insecure()};
  const auto client = ControlClient::connect(context.make_endpoint(), "127.0.0.1:9",
                                             std::chrono::milliseconds(300));
  REQUIRE(!client);
  CHECK(client.error().code == ErrorCode::kTimeout);
  CHECK(client.error().message ==
        "no coordinator at 127.0.0.1:9 answered in 0.3 s; start tautline-server with coordinator "
        "{} in its config, or name another address with --coordinator");
}

TEST_CASE("a refused hello gives the coordinator's reason", "[cli]") {
  FakeCoordinator fake([](const pb::ControlMessage&) {
    pb::ControlMessage answer;
    answer.mutable_hello_reply()->set_reason("wire version 1 here, 2 there");
    return answer;
  });
  const auto client = connect_control(fake.address(), 5, Security::insecure());
  REQUIRE(!client);
  CHECK(client.error().code == ErrorCode::kMismatch);
  CHECK(client.error().message.find("wire version 1 here, 2 there") != std::string::npos);
}

TEST_CASE("a coordinator that confirms nothing is told from one that is gone", "[cli]") {
  pb::ControlMessage answer = accepted();
  auto fake = std::make_unique<FakeCoordinator>([](const pb::ControlMessage& message) {
    return message.has_hello() ? std::optional(accepted()) : std::nullopt;
  });
  auto client = connect_control(fake->address(), 3, Security::insecure());
  REQUIRE(client);
  const auto unconfirmed = client.value().stop(JobId(1), false);
  REQUIRE(!unconfirmed);
  CHECK(unconfirmed.error().message.find("confirms nothing that it cannot save") !=
        std::string::npos);
  // The reason, where the coordinator names it.
  answer.mutable_hello_reply()->set_unsaved("etcd is full");
  FakeCoordinator full([&answer](const pb::ControlMessage& message) {
    return message.has_hello() ? std::optional(answer) : std::nullopt;
  });
  auto other = connect_control(full.address(), 3, Security::insecure());
  REQUIRE(other);
  const auto unsaved = other.value().stop(JobId(1), false);
  REQUIRE(!unsaved);
  CHECK(unsaved.error().message.find("nothing that it cannot save: etcd is full; unless") !=
        std::string::npos);
  fake.reset();
  const auto gone = client.value().stop(JobId(1), false);
  REQUIRE(!gone);
  CHECK(gone.error().message.starts_with("no coordinator at "));
}

TEST_CASE("the client introduces itself as one, with its wire version", "[cli]") {
  std::mutex mutex;
  pb::Hello seen;
  FakeCoordinator fake([&](const pb::ControlMessage& message) {
    const std::lock_guard lock(mutex);
    seen = message.hello();
    return accepted();
  });
  REQUIRE(connect_control(fake.address(), 5, Security::insecure()));
  const std::lock_guard lock(mutex);
  CHECK(seen.role() == pb::ROLE_CLIENT);
  CHECK(seen.wire_version() == kWireVersion);
  CHECK(seen.session() != 0);
}

TEST_CASE("a request that is lost is sent again with the same number and token", "[cli]") {
  std::mutex mutex;
  std::set<std::uint64_t> numbers;
  std::set<std::uint64_t> tokens;
  int submits = 0;
  FakeCoordinator fake([&](const pb::ControlMessage& message) -> std::optional<pb::ControlMessage> {
    if (message.has_hello()) return accepted();
    const std::lock_guard lock(mutex);
    numbers.insert(message.request());
    tokens.insert(message.submit().token());
    if (++submits == 1) return std::nullopt;
    pb::ControlMessage answer;
    answer.mutable_submit_reply()->set_job(7);
    return answer;
  });
  auto client = connect_control(fake.address(), 5, Security::insecure());
  REQUIRE(client);
  const auto job = client.value().submit(pb::Job());
  REQUIRE(job);
  CHECK(job.value().job() == 7);
  const std::lock_guard lock(mutex);
  CHECK(submits == 2);
  CHECK(numbers.size() == 1);
  CHECK(tokens.size() == 1);
}

TEST_CASE("a job is saved although the coordinator is too busy to answer at first", "[cli]") {
  std::uint64_t ignored = 0;  // the number of the first request to stop it
  bool is_stopped = false;
  FakeCoordinator fake([&](const pb::ControlMessage& message) -> std::optional<pb::ControlMessage> {
    if (message.has_hello()) return accepted();
    pb::ControlMessage answer;
    if (message.has_submit()) answer.mutable_submit_reply()->set_job(7);
    if (message.has_stop_job()) {
      if (ignored == 0) ignored = message.request();
      if (message.request() == ignored) return std::nullopt;
      is_stopped = true;
      answer.mutable_command_reply()->set_job(7);
    }
    if (message.has_status_request()) {
      pb::JobStatus& job = *answer.mutable_status_reply()->add_jobs();
      job.set_job(7);
      job.set_state(is_stopped ? pb::STOPPED : pb::RUNNING);
    }
    return answer;
  });
  auto client = connect_control(fake.address(), 5, Security::insecure());
  REQUIRE(client);
  SubmittedJob job(std::move(client).value(), [] { return ok(); });
  REQUIRE(job.submit(pb::Job()));
  job.save(std::chrono::seconds(10), [] { return true; });
  CHECK(job.seen().state() == pb::STOPPED);
}

TEST_CASE("a coordinator that restarted is greeted again before a request is repeated", "[cli]") {
  std::atomic<int> hellos{0};
  FakeCoordinator fake([&](const pb::ControlMessage& message) -> std::optional<pb::ControlMessage> {
    if (message.has_hello()) {
      ++hellos;
      return accepted();
    }
    // As one that was restarted after the first hello: it answers no sender that it does not know.
    if (hellos < 2) return std::nullopt;
    pb::ControlMessage answer;
    answer.mutable_status_reply();
    return answer;
  });
  auto client = connect_control(fake.address(), 5, Security::insecure());
  REQUIRE(client);
  CHECK(client.value().status());
  CHECK(hellos >= 2);
}

TEST_CASE("a request that the coordinator refuses has its error", "[cli]") {
  FakeCoordinator fake([](const pb::ControlMessage& message) {
    pb::ControlMessage answer = accepted();
    if (message.has_set_slack()) answer.mutable_command_reply()->set_error("no job 3");
    if (message.has_submit()) answer.mutable_submit_reply()->set_error("no worker has joined");
    if (message.has_status_request()) answer.mutable_status_reply()->set_error("no job 4");
    return answer;
  });
  auto client = connect_control(fake.address(), 5, Security::insecure());
  REQUIRE(client);
  CHECK(client.value().set_slack(JobId(3), Slack(2)).error().message == "no job 3");
  CHECK(client.value().submit(pb::Job()).error().message == "no worker has joined");
  CHECK(client.value().status(JobId(4)).error().message == "no job 4");
}

TEST_CASE("async is sent to the coordinator as the unbounded slack", "[cli]") {
  std::atomic<std::int64_t> slack{0};
  FakeCoordinator fake([&](const pb::ControlMessage& message) {
    pb::ControlMessage answer = accepted();
    if (message.has_set_slack()) {
      slack = message.set_slack().slack();
      answer.mutable_command_reply()->set_message("done");
    }
    return answer;
  });
  auto client = connect_control(fake.address(), 5, Security::insecure());
  REQUIRE(client);
  CHECK(client.value().set_slack(JobId(1), Slack::unbounded()).value() == "done");
  CHECK(slack == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("a check of the nodes ends when the caller has a reason to", "[cli]") {
  FakeCoordinator fake([&](const pb::ControlMessage& message) {
    if (!message.has_check_nodes()) return std::optional(accepted());
    pb::ControlMessage answer;
    answer.mutable_check_nodes_reply()->add_waits_for("worker0");
    return std::optional(answer);
  });
  auto client = connect_control(fake.address(), 5, Security::insecure());
  REQUIRE(client);
  int looks = 0;
  const TimePoint began = steady_now();
  const auto facts = examine_cluster(client.value(), {}, 0, 40, [&]() -> Result<void> {
    if (++looks < 3) return ok();
    return make_error(ErrorCode::kClosed, "interrupted");
  });
  REQUIRE_FALSE(facts.has_value());
  CHECK(facts.error().message == "interrupted");
  CHECK(looks == 3);
  CHECK(seconds(steady_now() - began) < 20);
}

}  // namespace
}  // namespace taut::cli
