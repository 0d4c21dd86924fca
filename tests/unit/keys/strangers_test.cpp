// Who gets through to a listening socket: no key, a wrong one, an unknown one, a revoked one.
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/keys/speaking.hpp"

using namespace taut;
using test::Caller;
using test::heard;
using test::kMaxWait;
using test::words;

namespace {

// A message of a stranger has none longer to arrive than one of a friend that is sent later.
constexpr int kTries = 5;

/// A listening socket with keys, and friends whose keys it admits.
struct Cluster : test::Listener {
  /// What a process with this key uses.
  [[nodiscard]] Security with(const KeyPair& own) const {
    Security security;
    security.own = own;
    security.cluster_key = pair.public_key;
    return security;
  }
  Security admit(const std::string& name, KeyRole role) {
    const KeyPair own = make_key_pair();
    keys->admit(own.public_key, {name, role});
    return with(own);
  }
};

}  // namespace

TEST_CASE("an admitted key gets through, and each message says whose it is", "[keys]") {
  Cluster cluster;
  Caller friendly(cluster.admit("gpu1", KeyRole::kWorker), cluster.address);
  friendly.say("hello");
  const auto got = heard(*cluster.server);
  REQUIRE(got);
  REQUIRE(got->sender);
  CHECK(got->sender->name == "gpu1");
  CHECK(got->sender->role == KeyRole::kWorker);
  REQUIRE(cluster.server->send(got->from, words("welcome")));
  const auto answer = heard(*friendly.endpoint);
  REQUIRE(answer);
  CHECK(answer->message.frames[0].text() == "welcome");
  // Only who has the cluster's secret could have answered.
  REQUIRE(answer->sender);
  CHECK(answer->sender->role == KeyRole::kServer);
}

TEST_CASE("without an admitted key nothing gets through, and the caller learns why", "[keys]") {
  Cluster cluster;
  const Security friendly = cluster.admit("friend", KeyRole::kView);
  for (int i = 0; i < kTries; ++i) {
    Caller keyless(Security::insecure(), cluster.address);
    keyless.say("stranger");
    auto refused = keyless.refusal();
    REQUIRE(refused);
    CHECK(refused->is_final);
    CHECK(refused->reason.find("demands a key") != std::string::npos);

    Caller unknown(cluster.with(make_key_pair()), cluster.address);
    unknown.say("stranger");
    refused = unknown.refusal();
    REQUIRE(refused);
    CHECK(refused->is_final);
    CHECK(refused->reason.find("tautline keys add") != std::string::npos);

    Security elsewhere = friendly;
    elsewhere.cluster_key = make_key_pair().public_key;
    Caller wrong(elsewhere, cluster.address);
    wrong.say("stranger");
    refused = wrong.refusal();
    REQUIRE(refused);
    CHECK_FALSE(refused->is_final);
    CHECK(refused->reason.find("another cluster") != std::string::npos);
  }
  Caller last(friendly, cluster.address);
  last.say("friend");
  const auto got = heard(*cluster.server);
  REQUIRE(got);
  CHECK(got->message.frames[0].text() == "friend");
}

TEST_CASE("a revoked key gets nothing through on an open connection, and hears nothing", "[keys]") {
  Cluster cluster;
  const Security revoked = cluster.admit("gpu1", KeyRole::kWorker);
  Caller caller(revoked, cluster.address);
  caller.say("before");
  const auto before = heard(*cluster.server);
  REQUIRE(before);
  cluster.keys->revoke(revoked.own.public_key);
  for (int i = 0; i < kTries; ++i) caller.say("after");
  const auto answered = cluster.server->send(before->from, words("secret"));
  REQUIRE_FALSE(answered);
  CHECK(answered.error().code == ErrorCode::kNotFound);
  Caller last(cluster.admit("friend", KeyRole::kView), cluster.address);
  last.say("friend");
  const auto got = heard(*cluster.server);
  REQUIRE(got);
  CHECK(got->message.frames[0].text() == "friend");
  // Nor does it get in again.
  Caller again(revoked, cluster.address);
  again.say("again");
  const auto refused = again.refusal();
  REQUIRE(refused);
  CHECK(refused->is_final);
  CHECK_FALSE(cluster.server->receive(Duration::zero()));
}

TEST_CASE("without a handler no peer gets in, not even one that is admitted", "[keys]") {
  Cluster cluster;
  const Security friendly = cluster.admit("friend", KeyRole::kOwner);
  cluster.context->end_admission();
  for (int i = 0; i < kTries; ++i) {
    Caller known(friendly, cluster.address);
    known.say("friend");
    Caller unknown(cluster.with(make_key_pair()), cluster.address);
    unknown.say("stranger");
    CHECK_FALSE(cluster.server->receive(std::chrono::milliseconds(200)));
  }
}

TEST_CASE("an admission that fails lets no peer in, and the handler outlives it", "[keys]") {
  class Failing final : public Admission {
   public:
    [[nodiscard]] std::shared_ptr<const Identity> find(std::string_view) const override {
      if (fails) throw std::runtime_error("the disk is gone");
      return nullptr;
    }
    void refresh() override {
      if (fails) throw std::runtime_error("the disk is gone");
    }
    std::atomic<bool> fails = false;
  };
  Cluster cluster;
  Security listener = cluster.listener;
  const auto failing = std::make_shared<Failing>();
  listener.admission = failing;
  ZmqContext context(listener);
  const auto endpoint = context.make_endpoint();
  const auto address = endpoint->bind("127.0.0.1:0").value();
  failing->fails = true;
  for (int i = 0; i < kTries; ++i) {
    Caller caller(cluster.with(make_key_pair()), address);
    caller.say("stranger");
    REQUIRE(caller.refusal());
  }
  CHECK_FALSE(endpoint->receive(Duration::zero()));
}

TEST_CASE("an admission that never answers lets no peer in, and nothing is served", "[keys]") {
  class Silent final : public Admission {
   public:
    [[nodiscard]] std::shared_ptr<const Identity> find(std::string_view) const override {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return answers; });
      return nullptr;
    }
    void answer() {
      const std::scoped_lock lock(mutex);
      answers = true;
      changed.notify_all();
    }
    mutable std::mutex mutex;
    mutable std::condition_variable changed;
    bool answers = false;
  };
  Cluster cluster;
  Security listener = cluster.listener;
  const auto silent = std::make_shared<Silent>();
  listener.admission = silent;
  ZmqContext context(listener);
  const auto bound = context.make_endpoint()->bind("127.0.0.1:0");
  silent->answer();
  REQUIRE_FALSE(bound);
  CHECK(bound.error().code == ErrorCode::kTimeout);
}

TEST_CASE("a listener that admits every peer is not served", "[keys]") {
  class EveryPeer final : public Admission {
   public:
    [[nodiscard]] std::shared_ptr<const Identity> find(std::string_view) const override {
      return std::make_shared<Identity>(Identity{"any peer", KeyRole::kOwner});
    }
  };
  Cluster cluster;
  Security listener = cluster.listener;
  listener.admission = std::make_shared<EveryPeer>();
  ZmqContext context(listener);
  const auto endpoint = context.make_endpoint();
  const auto bound = endpoint->bind("127.0.0.1:0");
  REQUIRE_FALSE(bound);
  CHECK(bound.error().message.find("a random key got in") != std::string::npos);
}

TEST_CASE("a key without the cluster's secret cannot listen", "[keys]") {
  Cluster cluster;
  ZmqContext context(cluster.admit("gpu1", KeyRole::kWorker));
  const auto bound = context.make_endpoint()->bind("127.0.0.1:0");
  REQUIRE_FALSE(bound);
  CHECK(bound.error().message.find("--role server") != std::string::npos);
}

TEST_CASE("a listener without keys is refused by who has one", "[keys]") {
  Cluster cluster;
  ZmqContext open{Security::insecure()};
  const auto impostor = open.make_endpoint();
  const std::string address = impostor->bind("127.0.0.1:0").value();
  Caller caller(cluster.admit("gpu1", KeyRole::kWorker), address);
  caller.say("secret");
  const auto refused = caller.refusal();
  REQUIRE(refused);
  // Either side may be the first to notice and to hang up.
  CHECK(refused->reason.find("has no keys") != std::string::npos);
  CHECK_FALSE(impostor->receive(Duration::zero()));
}

TEST_CASE("a routing id that another key takes over is another peer", "[keys]") {
  Cluster cluster;
  const auto caller = [&](void* context, const Security& security) {
    void* const socket = zmq_socket(context, ZMQ_DEALER);
    const int no_linger = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &no_linger, sizeof no_linger);
    zmq_setsockopt(socket, ZMQ_ROUTING_ID, "chosen", 6);
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, security.cluster_key.c_str(), 41);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, security.own.public_key.c_str(), 41);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, security.own.secret_key.c_str(), 41);
    zmq_connect(socket, ("tcp://" + cluster.address).c_str());
    return socket;
  };
  void* const context = zmq_ctx_new();
  void* const first = caller(context, cluster.admit("gpu1", KeyRole::kWorker));
  zmq_send(first, "one", 3, 0);
  const auto one = heard(*cluster.server);
  REQUIRE(one);
  zmq_close(first);
  // A connection that is closed gives its routing id back only a moment later.
  const Security other = cluster.admit("gpu2", KeyRole::kWorker);
  std::optional<Incoming> two;
  const TimePoint deadline = steady_now() + kMaxWait;
  while (!two && steady_now() < deadline) {
    void* const second = caller(context, other);
    zmq_send(second, "two", 3, 0);
    two = cluster.server->receive(std::chrono::milliseconds(200));
    zmq_close(second);
  }
  REQUIRE(two);
  CHECK(two->sender->name == "gpu2");
  CHECK(two->from != one->from);
  const auto late = cluster.server->send(one->from, words("for gpu1 alone"));
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ErrorCode::kNotFound);
  zmq_ctx_term(context);
}

TEST_CASE("connections of one key share what they leave unread, and cost no other key", "[keys]") {
  Cluster cluster;
  EndpointLimits limits;
  limits.unread = Bytes(4ULL << 20U);
  constexpr std::size_t kShares = 4;
  const auto server = cluster.context->make_endpoint(limits);
  const std::string address = server->bind("127.0.0.1:0").value();
  EndpointLimits lazy;
  lazy.queued_messages = 1;  // its I/O thread does not read ahead either
  ZmqContext of_many(cluster.admit("many", KeyRole::kView));
  std::vector<std::unique_ptr<Endpoint>> many;
  std::vector<PeerId> peers;
  for (int i = 0; i < 8; ++i) {
    many.push_back(of_many.make_endpoint(lazy));
    REQUIRE(many.back()->send(many.back()->connect(address).value(), words("hello")));
    const auto hello = heard(*server);
    REQUIRE(hello);
    peers.push_back(hello->from);
  }
  Caller other(cluster.admit("other", KeyRole::kView), address);
  other.say("hello");
  const auto hello = heard(*server);
  REQUIRE(hello);
  // Four of them until nothing more is taken, nor sent on the wire.
  const Frame payload = Frame::copy_of(std::string(1U << 19U, 'x'));
  const auto takes = [&](PeerId peer) {
    return server->send(peer, Message{{payload, payload}}).has_value();
  };
  constexpr int kQuietTurns = 50;
  for (int quiet = 0; quiet < kQuietTurns;) {
    const auto taken = std::count_if(peers.begin(), peers.begin() + kShares, takes);
    quiet = taken > 0 ? 0 : quiet + 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // One that has nothing unread gets nothing more either.
  for (std::size_t i = kShares; i < peers.size(); ++i) {
    CHECK_FALSE(takes(peers[i]));
    CHECK(server->unread(peers[i]) > limits.unread.value() / 2);
    CHECK(server->unread(peers[i]) <= limits.unread.value());
  }
  REQUIRE(server->send(hello->from, words("welcome")));
  CHECK(heard(*other.endpoint).has_value());
  CHECK(server->unread(hello->from) < limits.unread.value() / 2);
}
