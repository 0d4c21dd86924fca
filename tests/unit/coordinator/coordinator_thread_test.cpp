#include "server/coordinator/coordinator_thread.hpp"

#include <atomic>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/control_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

constexpr Duration kPatience = 10s;

pb::ControlMessage hello(std::uint32_t wire_version) {
  pb::ControlMessage message;
  message.set_request(5);
  pb::Hello& body = *message.mutable_hello();
  body.set_wire_version(wire_version);
  body.set_role(pb::ROLE_WORKER);
  body.set_name("w0");
  body.set_session(1);
  return message;
}

/// The first message that is an answer to `request`, or one without a body.
pb::ControlMessage await_reply(Endpoint& endpoint, std::uint64_t request) {
  const TimePoint deadline = steady_now() + kPatience;
  while (steady_now() < deadline) {
    const std::optional<Incoming> incoming = endpoint.receive(deadline - steady_now());
    if (!incoming) continue;
    const auto message = decode_control(incoming->message);
    if (message && message.value().request() == request) return message.value();
  }
  return {};
}

/// A store whose disk is full for as long as the test says.
class FullStore final : public CoordinatorStore {
 public:
  explicit FullStore(std::shared_ptr<std::atomic<int>> failures)
      : failures_(std::move(failures)), kept_(make_memory_store()) {}
  Result<CoordinatorRecords> load() override { return kept_->load(); }
  Result<void> save(const CoordinatorChanges& changes) override {
    if (failures_->fetch_sub(1) > 0) return make_error(ErrorCode::kIo, "no space left");
    return kept_->save(changes);
  }

 private:
  std::shared_ptr<std::atomic<int>> failures_;
  std::unique_ptr<CoordinatorStore> kept_;
};

/// Leads when the test says so.
class SetLeadership final : public Leadership {
 public:
  std::optional<std::int64_t> term() const override {
    const std::int64_t now = held;
    return now > 0 ? std::optional(now) : std::nullopt;
  }
  std::string leader() const override { return "other:7600"; }
  void resign() override {
    held = 0;
    ++resigned;
  }

  std::atomic<std::int64_t> held = 0;
  std::atomic<int> resigned = 0;
};

/// A store that cannot be read for as long as the test says.
class UnreadableStore final : public CoordinatorStore {
 public:
  struct Control {
    std::atomic<bool> fails = true;
    std::atomic<int> loads = 0;
  };
  explicit UnreadableStore(std::shared_ptr<Control> control)
      : control_(std::move(control)), kept_(make_memory_store()) {}
  Result<CoordinatorRecords> load() override {
    ++control_->loads;
    if (control_->fails) return make_error(ErrorCode::kIo, "it does not answer in time");
    return kept_->load();
  }
  Result<void> save(const CoordinatorChanges& changes) override { return kept_->save(changes); }

 private:
  std::shared_ptr<Control> control_;
  std::unique_ptr<CoordinatorStore> kept_;
};

/// A store that another leader has taken over.
class TakenStore final : public CoordinatorStore {
 public:
  explicit TakenStore(std::shared_ptr<std::atomic<bool>> taken)
      : taken_(std::move(taken)), kept_(make_memory_store()) {}
  Result<CoordinatorRecords> load() override { return kept_->load(); }
  Result<void> save(const CoordinatorChanges& changes) override {
    if (*taken_) return make_error(ErrorCode::kClosed, "another coordinator leads");
    return kept_->save(changes);
  }

 private:
  std::shared_ptr<std::atomic<bool>> taken_;
  std::unique_ptr<CoordinatorStore> kept_;
};

std::unique_ptr<CoordinatorThread> start(ZmqContext& context,
                                         std::unique_ptr<CoordinatorStore> store,
                                         std::shared_ptr<Leadership> leadership = nullptr) {
  CoordinatorThread::Config config;
  config.address = "127.0.0.1:0";
  config.tick = 10ms;
  config.leadership = std::move(leadership);
  return CoordinatorThread::start(context.make_endpoint(), std::move(store), config).value();
}

}  // namespace

TEST_CASE("the coordinator's thread answers over a socket and ends on request", "[coordinator]") {
  ZmqContext context{Security::insecure()};
  const auto thread = start(context, make_memory_store());
  CHECK_FALSE(thread->address().ends_with(":0"));
  const auto endpoint = context.make_endpoint();
  const PeerId coordinator = endpoint->connect(thread->address()).value();
  REQUIRE(endpoint->send(coordinator, encode(hello(kWireVersion))).has_value());
  const pb::ControlMessage reply = await_reply(*endpoint, 5);
  CHECK(reply.hello_reply().accepted());
  thread->stop();
  thread->stop();
  CHECK(thread->failure().empty());
}

TEST_CASE("a coordinator stands by until it leads, and redirects", "[coordinator]") {
  ZmqContext context{Security::insecure()};
  const auto leadership = std::make_shared<SetLeadership>();
  const auto taken = std::make_shared<std::atomic<bool>>(false);
  const auto thread = start(context, std::make_unique<TakenStore>(taken), leadership);
  const auto endpoint = context.make_endpoint();
  const PeerId coordinator = endpoint->connect(thread->address()).value();
  std::uint64_t number = 10;
  const auto ask = [&](pb::ControlMessage message) {
    message.set_request(++number);
    REQUIRE(endpoint->send(coordinator, encode(message)).has_value());
    return await_reply(*endpoint, number).hello_reply();
  };
  const auto becomes = [&](bool leads) {
    const TimePoint deadline = steady_now() + kPatience;
    while (steady_now() < deadline) {
      if (ask(hello(kWireVersion)).accepted() == leads) return true;
    }
    return false;
  };
  const pb::HelloReply redirection = ask(hello(kWireVersion));
  CHECK(redirection.stands_by());
  CHECK_FALSE(redirection.accepted());
  CHECK(redirection.leader() == "other:7600");
  CHECK(redirection.wire_version() == kWireVersion);
  pb::ControlMessage heartbeat;
  heartbeat.mutable_heartbeat();
  CHECK(ask(heartbeat).stands_by());
  pb::ControlMessage question;
  question.mutable_status_request();
  const auto refused = thread->ask(question, kPatience);
  CHECK_THAT(refused.error().message, Contains("stands by for the one at other:7600"));

  leadership->held = 7;
  REQUIRE(becomes(true));
  CHECK(thread->ask(question, kPatience).has_value());
  leadership->held = 0;
  REQUIRE(becomes(false));
  // Deposed by its store before it knows: what it would decide is not decided.
  leadership->held = 8;
  REQUIRE(becomes(true));
  *taken = true;
  pb::ControlMessage other = hello(kWireVersion);
  other.mutable_hello()->set_name("w1");
  other.mutable_hello()->set_session(2);
  REQUIRE(endpoint->send(coordinator, encode(other)).has_value());
  REQUIRE(becomes(false));
  CHECK(thread->failure().empty());
}

TEST_CASE("a leader that cannot read its state answers, tries now and then, and resigns",
          "[coordinator]") {
  ZmqContext context{Security::insecure()};
  const auto leadership = std::make_shared<SetLeadership>();
  const auto control = std::make_shared<UnreadableStore::Control>();
  const auto thread = start(context, std::make_unique<UnreadableStore>(control), leadership);
  const auto endpoint = context.make_endpoint();
  const PeerId coordinator = endpoint->connect(thread->address()).value();
  std::uint64_t number = 10;
  const auto greet = [&] {
    pb::ControlMessage message = hello(kWireVersion);
    message.set_request(++number);
    REQUIRE(endpoint->send(coordinator, encode(message)).has_value());
    return await_reply(*endpoint, number).hello_reply();
  };
  const TimePoint began = steady_now();
  const TimePoint deadline = began + kPatience;
  leadership->held = 7;
  while (leadership->resigned == 0 && steady_now() < deadline) CHECK(greet().stands_by());
  CHECK(leadership->resigned == 1);
  CHECK(control->loads == 3);
  // A pause between two tries.
  CHECK(steady_now() - began > 800ms);
  control->fails = false;
  leadership->held = 8;
  bool leads = false;
  while (!leads && steady_now() < deadline) leads = greet().accepted();
  CHECK(leads);
  CHECK(thread->failure().empty());
}

TEST_CASE("a status has the coordinator's wall clock", "[coordinator]") {
  ZmqContext context{Security::insecure()};
  const auto thread = start(context, make_memory_store());
  const auto endpoint = context.make_endpoint();
  const PeerId coordinator = endpoint->connect(thread->address()).value();
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  REQUIRE(endpoint->send(coordinator, encode(hello(kWireVersion))).has_value());
  REQUIRE(await_reply(*endpoint, 5).hello_reply().accepted());
  pb::ControlMessage request;
  request.set_request(6);
  request.mutable_status_request();
  const double before = now();
  REQUIRE(endpoint->send(coordinator, encode(request)).has_value());
  const pb::ControlMessage reply = await_reply(*endpoint, 6);
  CHECK(reply.status_reply().unix_time_s() >= before);
  CHECK(reply.status_reply().unix_time_s() <= now());
}

TEST_CASE("garbage, empty and foreign frames do not stop the coordinator", "[coordinator]") {
  ZmqContext context{Security::insecure()};
  const auto thread = start(context, make_memory_store());
  const auto endpoint = context.make_endpoint();
  const PeerId coordinator = endpoint->connect(thread->address()).value();
  std::string other_version;
  append_prefix(Plane::kControl, other_version);
  other_version[6] = 10;
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string(1000, '\xff'), other_version,
        other_version + "garbage", std::string("TAUTD\0\3\0", 8)}) {
    Message message;
    message.frames.push_back(Frame::copy_of(bytes));
    REQUIRE(endpoint->send(coordinator, message).has_value());
    message.frames.push_back(Frame::copy_of("and another"));
    REQUIRE(endpoint->send(coordinator, message).has_value());
  }
  REQUIRE(endpoint->send(coordinator, encode(hello(kWireVersion + 1))).has_value());
  const pb::ControlMessage refused = await_reply(*endpoint, 5);
  REQUIRE(refused.has_hello_reply());
  CHECK_FALSE(refused.hello_reply().accepted());
  CHECK_THAT(refused.hello_reply().reason(), Contains("wire version 16"));
  REQUIRE(endpoint->send(coordinator, encode(hello(kWireVersion))).has_value());
  CHECK(await_reply(*endpoint, 5).hello_reply().accepted());
}

TEST_CASE("a port in use is refused by its address", "[coordinator]") {
  ZmqContext context{Security::insecure()};
  const auto thread = start(context, make_memory_store());
  CoordinatorThread::Config config;
  config.address = thread->address();
  const auto second =
      CoordinatorThread::start(context.make_endpoint(), make_memory_store(), config);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::kExists);
  CHECK_THAT(second.error().message, Contains(thread->address()));
}

TEST_CASE("nothing is answered before it is saved", "[coordinator]") {
  ZmqContext context{Security::insecure()};
  const auto failures = std::make_shared<std::atomic<int>>(3);
  const auto thread = start(context, std::make_unique<FullStore>(failures));
  const auto endpoint = context.make_endpoint();
  const PeerId coordinator = endpoint->connect(thread->address()).value();
  REQUIRE(endpoint->send(coordinator, encode(hello(kWireVersion))).has_value());
  // The hello that could not be saved was not answered; once the disk has room, asking again helps.
  CHECK_FALSE(endpoint->receive(200ms).has_value());
  CHECK(failures->load() < 0);
  REQUIRE(endpoint->send(coordinator, encode(hello(kWireVersion))).has_value());
  CHECK(await_reply(*endpoint, 5).hello_reply().accepted());
}

TEST_CASE("heartbeats and status are answered while the disk is full", "[coordinator]") {
  ZmqContext context{Security::insecure()};
  const auto failures = std::make_shared<std::atomic<int>>(0);
  const auto thread = start(context, std::make_unique<FullStore>(failures));
  const auto endpoint = context.make_endpoint();
  const PeerId coordinator = endpoint->connect(thread->address()).value();
  REQUIRE(endpoint->send(coordinator, encode(hello(kWireVersion))).has_value());
  const std::uint64_t life = await_reply(*endpoint, 5).hello_reply().incarnation();
  REQUIRE(life > 0);
  // From now on something is unsaved: another worker's hello.
  *failures = 1'000'000;
  pb::ControlMessage other = hello(kWireVersion);
  other.set_request(6);
  other.mutable_hello()->set_name("w1");
  const auto second = context.make_endpoint();
  const PeerId again = second->connect(thread->address()).value();
  REQUIRE(second->send(again, encode(other)).has_value());
  CHECK_FALSE(second->receive(200ms).has_value());

  pb::ControlMessage heartbeat;
  heartbeat.set_request(7);
  heartbeat.mutable_heartbeat()->set_incarnation(life);
  REQUIRE(endpoint->send(coordinator, encode(heartbeat)).has_value());
  CHECK(await_reply(*endpoint, 7).heartbeat_reply().known());
  pb::ControlMessage status;
  status.set_request(8);
  status.mutable_status_request();
  REQUIRE(endpoint->send(coordinator, encode(status)).has_value());
  const pb::ControlMessage full = await_reply(*endpoint, 8);
  REQUIRE(full.has_status_reply());
  CHECK(full.status_reply().unsaved() == "no space left");
  // It says so until a save succeeds.
  *failures = 0;
  const TimePoint deadline = steady_now() + 20s;
  for (std::uint64_t request = 9; steady_now() < deadline; ++request) {
    status.set_request(request);
    REQUIRE(endpoint->send(coordinator, encode(status)).has_value());
    if (await_reply(*endpoint, request).status_reply().unsaved().empty()) break;
  }
  CHECK(steady_now() < deadline);
  CHECK(thread->failure().empty());
}

TEST_CASE("a coordinator whose disk failed to sync steps down with the reason", "[coordinator]") {
  class Unsynced final : public CoordinatorStore {
   public:
    Result<CoordinatorRecords> load() override { return CoordinatorRecords(); }
    Result<void> save(const CoordinatorChanges&) override {
      return make_error(ErrorCode::kClosed, "state/coordinator.sqlite: the disk failed to sync it");
    }
  };
  ZmqContext context{Security::insecure()};
  const auto thread = start(context, std::make_unique<Unsynced>());
  const auto endpoint = context.make_endpoint();
  const PeerId coordinator = endpoint->connect(thread->address()).value();
  REQUIRE(endpoint->send(coordinator, encode(hello(kWireVersion))).has_value());
  CHECK_FALSE(endpoint->receive(200ms).has_value());
  const TimePoint deadline = steady_now() + kPatience;
  while (thread->failure().empty() && steady_now() < deadline) {
    [[maybe_unused]] const auto nothing = endpoint->receive(10ms);
  }
  CHECK_THAT(thread->failure(), Contains("failed to sync"));
}

}  // namespace taut
