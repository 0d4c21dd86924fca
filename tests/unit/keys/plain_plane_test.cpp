// A data plane without encryption, where each message carries a secret: who gets a message through.
#include <zmq.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/keys/speaking.hpp"

using namespace taut;
using test::heard;
using test::words;

namespace {

constexpr int kAttempts = 5;

using PlainCluster = test::PlainListener;

/// A process that connects with this secret, and keys that admit it nowhere.
struct Holder : test::Caller {
  Holder(const DataToken& token, const std::string& address)
      : Caller(test::some_keys(), address, token) {}
};

/// ZeroMQ without our rules: a handshake with one secret, messages with whatever is sent.
struct Raw {
  explicit Raw(const std::string& address, const std::optional<Frame>& shown = std::nullopt) {
    context = zmq_ctx_new();
    socket = zmq_socket(context, ZMQ_DEALER);
    const int none = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    if (shown) {
      zmq_setsockopt(socket, ZMQ_PLAIN_USERNAME, "tautline", 8);
      zmq_setsockopt(socket, ZMQ_PLAIN_PASSWORD, shown->bytes().data(), shown->size());
    }
    zmq_connect(socket, ("tcp://" + address).c_str());
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  ~Raw() {
    zmq_close(socket);
    zmq_ctx_term(context);
  }
  void say(const std::vector<std::string>& frames) const {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
      zmq_send(socket, frames[i].data(), frames[i].size(), ZMQ_DONTWAIT | more);
    }
  }

  void* context = nullptr;
  void* socket = nullptr;
};

/// Nothing that was sent before gets through: what a member sends afterwards arrives first.
void check_nothing_before(PlainCluster& cluster) {
  Holder member(cluster.token(cluster.member("last", 9)), cluster.address);
  member.say("a member");
  const auto got = heard(*cluster.server);
  REQUIRE(got);
  CHECK(got->message.frames[0].text() == "a member");
  CHECK_FALSE(cluster.server->receive(std::chrono::milliseconds(100)));
}

}  // namespace

TEST_CASE("a member's message arrives without its secret, with its scope", "[keys]") {
  PlainCluster cluster;
  const TokenScope scope = cluster.member("gpu1", 1);
  Holder member(cluster.token(scope), cluster.address);
  for (const char* said : {"one", "two"}) {
    member.say(said);
    const auto got = heard(*cluster.server);
    REQUIRE(got);
    REQUIRE(got->message.frames.size() == 1);
    CHECK(got->message.frames[0].text() == said);
    CHECK(got->sender->name == "gpu1");
    REQUIRE(got->scope);
    CHECK(*got->scope == scope);
    CHECK(cluster.server->key_of(got->from) == scope.public_key);
    REQUIRE(cluster.server->send(got->from, words("welcome")));
    const auto answer = heard(*member.endpoint);
    REQUIRE(answer);
    REQUIRE(answer->message.frames.size() == 1);
    CHECK(answer->message.frames[0].text() == "welcome");
    CHECK(answer->sender->role == KeyRole::kServer);
    CHECK_FALSE(answer->scope);
  }
  CHECK(cluster.server->unadmitted() == 0);
}

TEST_CASE("on a plain plane nothing gets through without the right secret", "[keys]") {
  PlainCluster cluster;
  const TokenScope scope = cluster.member("gpu1", 1);
  const DataToken token = cluster.token(scope);
  const std::string right(token.request().text());
  for (int i = 0; i < kAttempts; ++i) {
    const Raw without(cluster.address);
    without.say({"stranger"});
    without.say({right, "stranger"});
    const Raw empty(cluster.address, Frame::copy_of("x"));
    empty.say({right, "stranger"});
    std::string guessed = right;
    guessed.back() = static_cast<char>(guessed.back() ^ 1);
    const Raw wrong(cluster.address, Frame::copy_of(guessed));
    wrong.say({right, "stranger"});
    const TokenKey elsewhere(make_key_pair().secret_key);
    Holder foreign(elsewhere.make(scope), cluster.address);
    foreign.say("stranger");
    const auto refused = foreign.refusal();
    REQUIRE(refused);
    CHECK(refused->is_final);
    CHECK(refused->reason.find("secret") != std::string::npos);
    TokenScope unknown = scope;
    unknown.public_key = make_key_pair().public_key;
    Holder stranger(cluster.token(unknown), cluster.address);
    stranger.say("stranger");
    CHECK(stranger.refusal());
  }
  check_nothing_before(cluster);
  CHECK(cluster.server->unadmitted() == 0);  // they were cut off before they could say a message
}

TEST_CASE("each message carries the secret, also after the handshake showed one", "[keys]") {
  PlainCluster cluster;
  const DataToken own = cluster.token(cluster.member("gpu1", 1));
  const DataToken of_other = cluster.token(cluster.member("gpu2", 2));
  const Raw member(cluster.address, own.request());
  member.say({"no secret"});
  member.say({"no secret", "at all"});
  member.say({std::string(of_other.request().text()), "another member's"});
  std::string cut(own.request().text());
  cut.pop_back();
  member.say({cut, "a part of it"});
  member.say({"no secret", std::string(own.request().text())});
  member.say({std::string(own.request().text()), "its own"});
  const auto got = heard(*cluster.server);
  REQUIRE(got);
  CHECK(got->message.frames.size() == 1);
  CHECK(got->message.frames[0].text() == "its own");
  CHECK(cluster.server->unadmitted() == 5);
}

TEST_CASE("the secret of a revoked key is good for nothing, on open connections too", "[keys]") {
  PlainCluster cluster;
  const TokenScope scope = cluster.member("gpu1", 1);
  Holder member(cluster.token(scope), cluster.address);
  member.say("before");
  const auto before = heard(*cluster.server);
  REQUIRE(before);
  cluster.keys->revoke(scope.public_key);
  for (int i = 0; i < kAttempts; ++i) member.say("after");
  CHECK_FALSE(cluster.server->send(before->from, words("parameters")));
  Holder again(cluster.token(scope), cluster.address);
  again.say("again");
  CHECK(again.refusal());
  check_nothing_before(cluster);
}

TEST_CASE("an answer without the secret that servers answer with is not read", "[keys]") {
  PlainCluster cluster;
  const TokenScope scope = cluster.member("gpu1", 1);
  const DataToken token = cluster.token(scope);
  // It lets every process in, sees the secret of the request, and knows how answers look.
  void* const context = zmq_ctx_new();
  void* const impostor = zmq_socket(context, ZMQ_ROUTER);
  const int yes = 1;
  const int wait_ms = 20000;
  const int none = 0;
  void* const admits = zmq_socket(context, ZMQ_REP);
  zmq_setsockopt(admits, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
  zmq_setsockopt(admits, ZMQ_LINGER, &none, sizeof none);
  REQUIRE(zmq_bind(admits, "inproc://zeromq.zap.01") == 0);
  const auto next_frame = [](void* socket) {
    std::string frame(256, '\0');
    const int got = zmq_recv(socket, frame.data(), frame.size(), 0);
    REQUIRE(got >= 0);
    return frame.substr(0, static_cast<std::size_t>(got));
  };
  const auto say = [](void* socket, const std::vector<std::string>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const int more = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      zmq_send(socket, parts[i].data(), parts[i].size(), more);
    }
  };
  zmq_setsockopt(impostor, ZMQ_PLAIN_SERVER, &yes, sizeof yes);
  zmq_setsockopt(impostor, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
  zmq_setsockopt(impostor, ZMQ_LINGER, &none, sizeof none);
  REQUIRE(zmq_bind(impostor, "tcp://127.0.0.1:*") == 0);
  std::string place(256, '\0');
  std::size_t size = place.size();
  zmq_getsockopt(impostor, ZMQ_LAST_ENDPOINT, place.data(), &size);
  Holder member(token, std::string(place.c_str()).substr(6));
  member.say("an update");
  std::vector<std::string> asked(8);
  for (std::string& frame : asked) frame = next_frame(admits);
  say(admits, {"1.0", asked[1], "200", "", "", ""});
  std::vector<std::string> frames(3);
  for (std::string& frame : frames) frame = next_frame(impostor);
  REQUIRE(frames[2] == "an update");
  CHECK(frames[1] == token.request().text());
  say(impostor, {frames[0], "parameters"});
  say(impostor, {frames[0], frames[1], "parameters"});
  say(impostor, {frames[0], frames[1].substr(frames[1].size() - 32), "parameters"});
  say(impostor, {frames[0], std::string(token.answer().text()), "what the cluster says"});
  const auto got = heard(*member.endpoint);
  REQUIRE(got);
  CHECK(got->message.frames[0].text() == "what the cluster says");
  CHECK(member.endpoint->unadmitted() == 3);
  zmq_close(impostor);
  zmq_close(admits);
  zmq_ctx_term(context);
}

TEST_CASE("on a plain plane no peer gets in without a handler", "[keys]") {
  PlainCluster cluster;
  cluster.context->end_admission();
  const TokenScope scope = cluster.member("gpu1", 1);
  for (int i = 0; i < kAttempts; ++i) {
    Holder member(cluster.token(scope), cluster.address);
    member.say("member");
    const Raw stranger(cluster.address);
    stranger.say({"stranger"});
    CHECK_FALSE(cluster.server->receive(std::chrono::milliseconds(200)));
  }
}

TEST_CASE("a plain listener needs the cluster's secret, and admits no key without a secret",
          "[keys]") {
  class EveryPeer final : public Admission {
   public:
    [[nodiscard]] std::shared_ptr<const Identity> find(std::string_view) const override {
      return std::make_shared<Identity>(Identity{"any peer", KeyRole::kOwner});
    }
  };
  PlainCluster cluster;
  Security open = cluster.listener;
  open.admission = std::make_shared<EveryPeer>();
  // Not even where every key is admitted does a stranger get in, as the listener itself finds out.
  ZmqContext every(open);
  CHECK(every.make_data_endpoint()->bind("127.0.0.1:0"));
  Security worker = cluster.listener;
  worker.cluster_secret.clear();
  ZmqContext keyless(worker);
  const auto endpoint = keyless.make_endpoint();
  endpoint->use_token(cluster.token(cluster.member("gpu1", 1)));
  CHECK_FALSE(endpoint->bind("127.0.0.1:0"));
}

TEST_CASE("CURVE and a plain plane do not talk to each other, and say why", "[keys]") {
  PlainCluster cluster;
  const TokenScope scope = cluster.member("gpu1", 1);
  const auto encrypted = cluster.context->make_endpoint();
  const std::string curve = encrypted->bind("127.0.0.1:0").value();
  Holder plain(cluster.token(scope), curve);
  plain.say("member");
  const auto refused = plain.refusal();
  REQUIRE(refused);
  CHECK(refused->reason.find("data_security: TOKEN") != std::string::npos);
  ZmqContext other(cluster.listener);
  const auto keyed = other.make_endpoint();
  const PeerId peer = keyed->connect(cluster.address).value();
  (void)keyed->send(peer, words("member"));
  check_nothing_before(cluster);
}

TEST_CASE("several I/O threads lose and reorder nothing of a connection", "[keys]") {
  PlainCluster cluster;
  Security security = cluster.listener;
  ZmqContext threads(security, 4);
  const auto server = threads.make_data_endpoint();
  const std::string address = server->bind("127.0.0.1:0").value();
  std::vector<std::unique_ptr<Holder>> members;
  constexpr int kMembers = 6;
  constexpr int kMessages = 200;
  for (int i = 0; i < kMembers; ++i) {
    const auto worker = static_cast<std::uint32_t>(i);
    members.push_back(std::make_unique<Holder>(
        cluster.token(cluster.member("gpu" + std::to_string(i), worker)), address));
  }
  for (int n = 0; n < kMessages; ++n) {
    for (const auto& member : members) member->say(std::to_string(n));
  }
  std::vector<int> next(kMembers, 0);
  for (int left = kMembers * kMessages; left > 0; --left) {
    const auto got = heard(*server);
    REQUIRE(got);
    int& expected = next[got->scope->worker.value()];
    REQUIRE(got->message.frames[0].text() == std::to_string(expected));
    ++expected;
  }
}
