// A data plane over UCX: who gets a message through, and what else its port bears.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/net/ucx/ucx_endpoint.hpp"
#include "common/net/ucx/ucx_parts.hpp"
#include "common/net/ucx/ucx_worker.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/keys/speaking.hpp"

using namespace taut;
using test::heard;
using test::words;

namespace {

/// A server that listens through UCX on a plain data plane.
struct UcxCluster : test::PlainListener {
  UcxCluster() {
    ucx = context->make_data_endpoint();
    place = ucx->bind("ucx://127.0.0.1:0").value();
  }

  std::unique_ptr<Endpoint> ucx;
  std::string place;
};

/// A process that connects with this secret, and keys that admit it nowhere.
struct Member : test::Caller {
  Member(const DataToken& token, const std::string& address)
      : Caller(test::some_keys(), address, token) {}
};

/// UCX without our rules: whatever parts it is made to send.
struct RawUcx {
  explicit RawUcx(const std::string& place) {
    worker = UcxWorker::open({.on_caller = [](ucp_conn_request_h) {},
                              .on_lost = [this](ucp_ep_h, const char*) { is_lost = true; },
                              .on_part =
                                  [this](std::span<const std::byte> header, void*, std::size_t,
                                         bool, ucp_ep_h) {
                                    parts.emplace_back(header.begin(), header.end());
                                    return UCS_OK;
                                  }})
                 .value();
    const std::string address = place.substr(kUcxScheme.size());
    handle = worker->dial(look_up_socket(address, false).value()).value();
  }
  void say(const UcxPart& part, const Frame& secret, const Message& message = {}) {
    auto body =
        std::make_shared<Buffer>(message.frames.empty() ? Buffer() : ucx_body(message, pool));
    const auto bytes = message.frames.empty() ? std::span<const std::byte>() : body->bytes();
    (void)worker->send(handle, part.with(secret.bytes()), bytes, body, false,
                       part.kind == UcxPartKind::kHello);
    progress(std::chrono::milliseconds(20));
  }
  void progress(Duration wait) const {
    const TimePoint until = steady_now() + wait;
    while (steady_now() < until) worker->progress();
  }
  /// Says hello and waits for the answer.
  std::optional<UcxPart> greet(const Frame& secret) {
    say({.kind = UcxPartKind::kHello, .connection = 1}, secret);
    for (int i = 0; i < 500 && parts.empty(); ++i) progress(std::chrono::milliseconds(10));
    if (parts.empty()) return std::nullopt;
    return read_ucx_part(parts.front())->part;
  }

  BufferPool pool;
  std::deque<std::vector<std::byte>> parts;
  bool is_lost = false;
  std::unique_ptr<UcxWorker> worker;
  ucp_ep_h handle = nullptr;
};

}  // namespace

TEST_CASE("over UCX a member's message arrives without its secret, with its scope", "[keys]") {
  UcxCluster cluster;
  CHECK(cluster.place.starts_with("ucx://127.0.0.1:"));
  const TokenScope scope = cluster.member("gpu1", 1);
  Member member(cluster.token(scope), cluster.place);
  for (const std::string& said : {std::string("one"), std::string(100'000, 'x')}) {
    member.say(said);
    const auto got = heard(*cluster.ucx);
    REQUIRE(got);
    REQUIRE(got->message.frames.size() == 1);
    CHECK(got->message.frames[0].text() == said);
    CHECK(got->sender->name == "gpu1");
    REQUIRE(got->scope);
    CHECK(*got->scope == scope);
    CHECK(cluster.ucx->key_of(got->from) == scope.public_key);
    REQUIRE(cluster.ucx->send(got->from, words("welcome")));
    const auto answer = heard(*member.endpoint);
    REQUIRE(answer);
    CHECK(answer->message.frames[0].text() == "welcome");
    CHECK(answer->sender->role == KeyRole::kServer);
    CHECK_FALSE(answer->scope);
  }
  CHECK(cluster.ucx->unadmitted() == 0);
}

TEST_CASE("over UCX nothing gets through without the right secret", "[keys]") {
  UcxCluster cluster;
  const TokenScope scope = cluster.member("gpu1", 1);
  const TokenKey elsewhere(make_key_pair().secret_key);
  Member foreign(elsewhere.make(scope), cluster.place);
  foreign.say("stranger");
  const auto refused = foreign.refusal();
  REQUIRE(refused);
  CHECK(refused->is_final);
  CHECK(refused->reason.find("secret") != std::string::npos);
  TokenScope unknown = scope;
  unknown.public_key = make_key_pair().public_key;
  Member stranger(cluster.token(unknown), cluster.place);
  stranger.say("stranger");
  CHECK(stranger.refusal());
  RawUcx silent(cluster.place);
  const auto answer = silent.greet(Frame());
  REQUIRE(answer);
  CHECK(answer->kind == UcxPartKind::kRefused);
  CHECK_FALSE(cluster.ucx->receive(std::chrono::milliseconds(200)));
  // Without a secret this side does not even connect, nor without keys.
  ZmqContext keyed(test::some_keys());
  const auto without = keyed.make_endpoint()->connect(cluster.place);
  REQUIRE_FALSE(without);
  CHECK(without.error().message.find("data_security: TOKEN") != std::string::npos);
  ZmqContext insecure(Security::insecure());
  CHECK_FALSE(insecure.make_endpoint()->connect(cluster.place));
  CHECK_FALSE(insecure.make_endpoint()->bind("ucx://127.0.0.1:0"));
  // Nor does a server that encrypts listen so.
  CHECK_FALSE(cluster.context->make_endpoint()->bind("ucx://127.0.0.1:0"));
}

TEST_CASE("over UCX each message carries the secret, also after the greeting", "[keys]") {
  UcxCluster cluster;
  const DataToken own = cluster.token(cluster.member("gpu1", 1));
  const DataToken of_other = cluster.token(cluster.member("gpu2", 2));
  RawUcx member(cluster.place);
  const auto welcome = member.greet(own.request());
  REQUIRE(welcome);
  REQUIRE(welcome->kind == UcxPartKind::kWelcome);
  RawUcx other(cluster.place);
  REQUIRE(other.greet(of_other.request()));
  UcxPart part{.kind = UcxPartKind::kMessage, .frames = 1, .connection = welcome->sequence};
  member.say(part, Frame(), words("no secret"));
  member.say(part, of_other.request(), words("another member's"));
  other.say(part, of_other.request(), words("in the name of another connection"));
  std::string cut(own.request().text());
  cut.pop_back();
  member.say(part, Frame::copy_of(cut), words("a part of it"));
  member.say(part, own.request(), words("its own"));
  const auto got = heard(*cluster.ucx);
  REQUIRE(got);
  CHECK(got->message.frames[0].text() == "its own");
  CHECK(got->sender->name == "gpu1");
  CHECK(cluster.ucx->unadmitted() == 4);
}

TEST_CASE("over UCX the secret of a revoked key is good for nothing", "[keys]") {
  UcxCluster cluster;
  const TokenScope scope = cluster.member("gpu1", 1);
  Member member(cluster.token(scope), cluster.place);
  member.say("before");
  const auto before = heard(*cluster.ucx);
  REQUIRE(before);
  cluster.keys->revoke(scope.public_key);
  for (int i = 0; i < 5; ++i) member.say("after");
  CHECK_FALSE(cluster.ucx->receive(std::chrono::milliseconds(300)));
  CHECK(cluster.ucx->unadmitted() == 5);
  CHECK_FALSE(cluster.ucx->send(before->from, words("parameters")));
  Member again(cluster.token(scope), cluster.place);
  again.say("again");
  CHECK(again.refusal());
}

TEST_CASE("parts of UCX messages that no sender of ours makes cost their connection alone",
          "[keys]") {
  UcxCluster cluster;
  Member member(cluster.token(cluster.member("gpu1", 1)), cluster.place);
  member.say("first");
  REQUIRE(heard(*cluster.ucx));
  const DataToken hostile = cluster.token(cluster.member("gpu2", 2));
  const UcxPart right{.kind = UcxPartKind::kMessage, .frames = 1};
  std::vector<UcxPart> bad(5, right);
  bad[0].frames = 0;
  bad[1].frames = 2;                  // the body has one size
  bad[2].separate = 1;                // and that is a small one
  bad[3].kind = UcxPartKind::kFrame;  // small, and apart
  bad[4].frames = 0xFFFFFFFF;
  for (UcxPart part : bad) {
    RawUcx raw(cluster.place);
    const auto welcome = raw.greet(hostile.request());
    REQUIRE(welcome);
    part.connection = welcome->sequence;
    raw.say(part, hostile.request(), words("bad"));
    part = right;
    part.connection = welcome->sequence;
    part.sequence = 1;
    raw.say(part, hostile.request(), words("bad"));
    member.say("still here");
    const auto got = heard(*cluster.ucx);
    REQUIRE(got);
    CHECK(got->message.frames[0].text() == "still here");
  }
  CHECK_FALSE(cluster.ucx->receive(std::chrono::milliseconds(100)));
}

TEST_CASE("bytes of another protocol on a port of UCX harm no connection", "[keys]") {
  UcxCluster cluster;
  Member member(cluster.token(cluster.member("gpu1", 1)), cluster.place);
  member.say("first");
  REQUIRE(heard(*cluster.ucx));
  const auto port =
      static_cast<std::uint16_t>(std::stoi(cluster.place.substr(cluster.place.rfind(':') + 1)));
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(stranger, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0);
    std::string bytes(static_cast<std::size_t>(i) * 97, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    (void)!write(stranger, bytes.data(), bytes.size());
    close(stranger);
  }
  member.say("still here");
  const auto got = heard(*cluster.ucx);
  REQUIRE(got);
  CHECK(got->message.frames[0].text() == "still here");
}

TEST_CASE("no other user can open the shared memory of UCX", "[keys]") {
  if (std::getenv("UCX_TLS") != nullptr) return;
  UcxCluster cluster;
  Member member(cluster.token(cluster.member("gpu1", 1)), cluster.place);
  member.say("first");
  REQUIRE(heard(*cluster.ucx));
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int segments = 0;
  while (std::getline(maps, line)) {
    CHECK(line.find("/SYSV") == std::string::npos);
    if (line.find("ucx_shm") != std::string::npos) ++segments;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.string().find("ucx_shm") == std::string::npos) continue;
    struct stat found {};
    REQUIRE(stat(entry.path().c_str(), &found) == 0);
    CHECK((found.st_mode & 077U) == 0);
  }
  CHECK(segments > 0);
}

TEST_CASE("one endpoint serves ZeroMQ and UCX at a time", "[keys]") {
  UcxCluster cluster;
  const auto both = cluster.context->make_data_endpoint();
  const std::string by_zmq = both->bind("127.0.0.1:0").value();
  const std::string by_ucx = both->bind("ucx://127.0.0.1:0").value();
  Member first(cluster.token(cluster.member("gpu1", 1)), by_zmq);
  Member second(cluster.token(cluster.member("gpu2", 2)), by_ucx);
  for (int i = 0; i < 50; ++i) {
    first.say("by ZeroMQ");
    second.say("by UCX");
    for (int n = 0; n < 2; ++n) {
      const auto got = both->receive(test::kMaxWait);
      REQUIRE(got);
      const bool is_first = got->sender->name == "gpu1";
      CHECK(got->message.frames[0].text() == (is_first ? "by ZeroMQ" : "by UCX"));
      REQUIRE(both->send(got->from, words("answer")));
      CHECK(heard(is_first ? *first.endpoint : *second.endpoint));
    }
  }
  std::thread waker([&both] { both->wake(); });
  const TimePoint before = steady_now();
  CHECK_FALSE(both->receive(test::kMaxWait));
  CHECK(steady_now() - before < test::kMaxWait);
  waker.join();
}
