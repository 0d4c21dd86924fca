// What the secrets of a plain data plane allow, as the table says it and over a shard's socket.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/rights.hpp"
#include "proto/session/data_secret.hpp"
#include "server/coordinator/data_secrets.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/server/guarded_cluster.hpp"

using namespace taut;
using test::GuardedCluster;
using test::is_granted;
namespace request = test::request;

namespace {

constexpr std::uint64_t kSubmission = GuardedCluster::kSubmission;
constexpr Duration kMaxWait = std::chrono::seconds(20);

DataMessage with_body(decltype(DataMessage::body) body) {
  DataMessage message = request::from_worker(0);
  message.body = std::move(body);
  return message;
}

DataMessage part_request() {
  DataPartRequest part;
  part.head.set_kind(pb::PartRequest::CHECK);
  return with_body(part);
}

pb::Confirm confirmation() {
  pb::Confirm confirm;
  confirm.set_follower(1);
  return confirm;
}

struct Kind {
  const char* name;
  DataMessage message;
  bool reads;   // a reader may send it
  bool serves;  // a server alone may
};

/// Every message that a shard may be sent, from member 0 of job 7.
std::vector<Kind> kinds() {
  return {
      {"hello", request::data_hello(), true, false},
      {"open", request::open_tables(0), false, false},
      {"push", request::item(0, pb::DataItem::PUSH), false, false},
      {"read", request::item(0, pb::DataItem::READ), false, false},
      {"settle", request::item(0, pb::DataItem::SETTLE), false, false},
      {"snapshot", request::item(0, pb::DataItem::SNAPSHOT), true, false},
      {"follow", request::item(0, pb::DataItem::FOLLOW), true, false},
      {"describe", with_body(pb::Describe()), true, false},
      {"confirm", with_body(confirmation()), true, false},
      {"images", with_body(DataImages{}), false, true},
      {"images kept", with_body(pb::SliceImagesReply()), false, true},
      {"part", part_request(), false, true},
  };
}

TokenScope scope_of_member() {
  return {.use = TokenUse::kTrain,
          .public_key = "x",
          .job = JobId(7),
          .submission = kSubmission,
          .worker = WorkerId(0),
          .incarnation = Incarnation(100)};
}

constexpr JobHere kHere{kSubmission, true};

/// A process at a shard of a plain data plane.
struct Holder {
  Holder(const Security& security, const DataToken& token, const std::string& address)
      : context(security) {
    endpoint = context.make_endpoint();
    endpoint->use_token(token);
    peer = endpoint->connect(address).value();
  }
  void say(const DataMessage& message) { (void)endpoint->send(peer, encode(message)); }
  std::optional<DataMessage> hear(Duration wait) {
    const TimePoint deadline = steady_now() + wait;
    while (steady_now() < deadline) {
      const auto got = endpoint->receive(std::chrono::milliseconds(20));
      if (got) return decode_data(got->message).value();
      if (endpoint->refusal(peer)) return std::nullopt;
    }
    return std::nullopt;
  }
  DataMessage ask(const DataMessage& message) {
    say(message);
    auto answer = hear(kMaxWait);
    REQUIRE(answer);
    return *answer;
  }

  ZmqContext context;
  std::unique_ptr<Endpoint> endpoint;
  PeerId peer;
};

/// Whether the shard has accepted member 0's update of clock 0, as its owner sees it.
bool has_update(Holder& own) {
  const DataMessage answer = own.ask(request::item(0, pb::DataItem::PUSH, Clock(1)));
  const auto& item = std::get<DataItems>(answer.body).items.at(0);
  // Clock 1 is refused as out of order where clock 0 has not arrived.
  return item.kind == pb::DataItem::ACK;
}

}  // namespace

TEST_CASE("a member's secret is for its own messages, in this life and this job", "[rights]") {
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    CHECK(misuse_of(scope_of_member(), kind.message, kHere).empty() != kind.serves);
    const auto is_misuse = [&](const TokenScope& scope, const std::optional<JobHere>& here) {
      return !misuse_of(scope, kind.message, here).empty();
    };
    TokenScope scope = scope_of_member();
    scope.worker = WorkerId(1);
    CHECK(is_misuse(scope, kHere));
    scope = scope_of_member();
    scope.incarnation = Incarnation(99);
    CHECK(is_misuse(scope, kHere));
    scope = scope_of_member();
    scope.submission -= 1;
    CHECK(is_misuse(scope, kHere));
    scope = scope_of_member();
    scope.job = JobId(6);
    CHECK(is_misuse(scope, kHere));
    // Lost, drained or not yet a member: the coordinator's word, and not the key, decides.
    CHECK(is_misuse(scope_of_member(), JobHere{kSubmission, false}));
  }
}

TEST_CASE("a reader's secret reads its job, a server's serves, a check's says hello", "[rights]") {
  TokenScope reader = scope_of_member();
  reader.use = TokenUse::kRead;
  reader.worker = WorkerId();
  reader.incarnation = Incarnation();
  TokenScope server{.use = TokenUse::kServe, .public_key = "x"};
  TokenScope check{.use = TokenUse::kCheck, .public_key = "x"};
  TokenScope none = scope_of_member();
  none.use = static_cast<TokenUse>(0);
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    CHECK(misuse_of(reader, kind.message, JobHere{kSubmission, false}).empty() == kind.reads);
    CHECK_FALSE(misuse_of(reader, kind.message, JobHere{kSubmission + 1, false}).empty());
    CHECK(misuse_of(server, kind.message, kHere).empty() == kind.serves);
    CHECK_FALSE(misuse_of(check, kind.message, kHere).empty());
    CHECK_FALSE(misuse_of(none, kind.message, kHere).empty());
  }
  DataMessage hello = request::data_hello();
  hello.job = JobId();
  CHECK(misuse_of(check, hello, std::nullopt).empty());
  CHECK_FALSE(misuse_of(server, hello, std::nullopt).empty());
}

TEST_CASE("the coordinator adds each receiver's own secret to what needs one", "[rights]") {
  const TokenKey tokens(make_key_pair().secret_key);
  const std::string key = make_key_pair().public_key;
  const auto proved = [&](const pb::DataToken& secret) {
    const auto token = to_token(secret);
    REQUIRE(token);
    return *tokens.check(token->request().bytes());
  };
  pb::ControlMessage job;
  job.mutable_worker_job()->set_job(7);
  job.mutable_worker_job()->set_token(kSubmission);
  job.mutable_worker_job()->set_worker(2);
  job.mutable_worker_job()->set_incarnation(102);
  add_secret(job, tokens, key);
  CHECK_FALSE(job.worker_job().has_secret());  // to end it
  job.mutable_worker_job()->add_shards();
  add_secret(job, tokens, key);
  TokenScope scope = scope_of_member();
  scope.public_key = key;
  scope.worker = WorkerId(2);
  scope.incarnation = Incarnation(102);
  CHECK(proved(job.worker_job().secret()) == scope);

  pb::ControlMessage follow;
  follow.mutable_follow_reply()->set_error("no such job");
  add_secret(follow, tokens, key);
  CHECK_FALSE(follow.follow_reply().has_secret());
  follow.mutable_follow_reply()->set_job(7);
  follow.mutable_follow_reply()->set_submission(kSubmission);
  add_secret(follow, tokens, key);
  const TokenScope reader{
      .use = TokenUse::kRead, .public_key = key, .job = JobId(7), .submission = kSubmission};
  CHECK(proved(follow.follow_reply().secret()) == reader);

  pb::ControlMessage beat;
  beat.mutable_heartbeat_reply()->set_known(true);
  add_secret(beat, tokens, key);
  CHECK_FALSE(beat.heartbeat_reply().has_check_secret());
  beat.mutable_heartbeat_reply()->mutable_check()->set_number(1);
  add_secret(beat, tokens, key);
  const TokenScope check{.use = TokenUse::kCheck, .public_key = key};
  CHECK(proved(beat.heartbeat_reply().check_secret()) == check);

  pb::ControlMessage server;
  server.mutable_server_job()->set_job(7);
  const std::string before = server.SerializeAsString();
  add_secret(server, tokens, key);
  CHECK(server.SerializeAsString() == before);
}

TEST_CASE("a shard of a plain plane serves the member whose secret it is, and no other",
          "[rights]") {
  GuardedCluster cluster(true);
  const Security key = cluster.admit("worker0", KeyRole::kWorker);
  Holder own(key, cluster.secret(GuardedCluster::member(key, 0)), cluster.shard());
  REQUIRE(is_granted(own.ask(request::data_hello())));
  REQUIRE(is_granted(own.ask(request::open_tables(0))));
  const Security other_key = cluster.admit("worker1", KeyRole::kWorker);
  const Security revoked_key = cluster.admit("gone", KeyRole::kOwner);
  const Security owner_key = cluster.admit("me", KeyRole::kOwner);
  std::vector<std::pair<const char*, std::pair<Security, TokenScope>>> others;
  // The owner's key is good for every name, and still not another member's secret.
  for (const Security& security : {other_key, owner_key}) {
    others.push_back({"another member's", {security, GuardedCluster::member(security, 1)}});
    TokenScope scope = GuardedCluster::member(security, 0);
    scope.incarnation = Incarnation(99);
    others.push_back({"of an earlier incarnation", {security, scope}});
    scope = GuardedCluster::member(security, 0);
    scope.submission -= 1;
    others.push_back({"of an earlier job of the number", {security, scope}});
    scope.use = TokenUse::kServe;
    others.push_back({"for something else", {security, scope}});
  }
  // Member 0's secret is bound to its name too.
  others.push_back({"another key's", {other_key, GuardedCluster::member(other_key, 0)}});
  std::vector<std::unique_ptr<Holder>> strangers;
  std::uint64_t sent = 0;
  for (const auto& [why, who] : others) {
    auto& stranger = strangers.emplace_back(
        std::make_unique<Holder>(who.first, cluster.secret(who.second), cluster.shard()));
    const bool is_named = std::string(why) == "another key's";
    for (const Kind& kind : kinds()) {
      if (kind.serves || (is_named && kind.reads)) continue;
      stranger->say(kind.message);
      if (!is_named) ++sent;
    }
  }
  // Revoked while its connection is open, and when it connects again.
  Holder revoked(revoked_key, cluster.secret(GuardedCluster::member(revoked_key, 0)),
                 cluster.shard());
  REQUIRE(is_granted(revoked.ask(request::data_hello())));
  cluster.revoke(revoked_key);
  for (const Kind& kind : kinds()) {
    revoked.say(kind.message);
    ++sent;
  }
  Holder again(revoked_key, cluster.secret(GuardedCluster::member(revoked_key, 0)),
               cluster.shard());
  for (const Kind& kind : kinds()) again.say(kind.message);
  // Keys without a secret, and none: the plane speaks another mechanism.
  std::vector<std::unique_ptr<ZmqContext>> contexts;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (const Security& security : {key, Security::insecure()}) {
    contexts.push_back(std::make_unique<ZmqContext>(security));
    endpoints.push_back(contexts.back()->make_endpoint());
    const PeerId shard = endpoints.back()->connect(cluster.shard()).value();
    for (const Kind& kind : kinds()) (void)endpoints.back()->send(shard, encode(kind.message));
  }
  const TimePoint deadline = steady_now() + kMaxWait;
  while (cluster.unproven() < sent && steady_now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(cluster.unproven() == sent);
  for (const auto& stranger : strangers) {
    while (const auto answer = stranger->hear(std::chrono::milliseconds(50))) {
      CHECK_FALSE(is_granted(*answer));
    }
  }
  CHECK_FALSE(again.hear(std::chrono::milliseconds(50)));
  CHECK_FALSE(has_update(own));
  CHECK(is_granted(own.ask(request::item(0, pb::DataItem::PUSH, Clock(0)))));
  CHECK(has_update(own));
}

TEST_CASE("a member that is none any more is dropped, and one that joins again is served",
          "[rights]") {
  GuardedCluster cluster(true);
  const Security key = cluster.admit("worker0", KeyRole::kWorker);
  Holder first(key, cluster.secret(GuardedCluster::member(key, 0)), cluster.shard());
  REQUIRE(is_granted(first.ask(request::data_hello())));
  REQUIRE(is_granted(first.ask(request::open_tables(0))));
  REQUIRE(is_granted(first.ask(request::item(0, pb::DataItem::PUSH, Clock(0)))));
  pb::ServerJob job = GuardedCluster::job();
  job.set_revision(2);
  job.mutable_members(0)->set_fenced(true);
  pb::Member& anew = *job.add_members();
  anew.set_worker(2);
  anew.set_incarnation(102);
  anew.set_name("worker0");
  anew.set_leave_clock(Clock::never().value());
  cluster.change(job);
  const std::uint64_t before = cluster.unproven();
  first.say(request::item(0, pb::DataItem::PUSH, Clock(1)));
  first.say(request::data_hello());
  // Nor does it help to say the number of its new life.
  first.say(request::item(2, pb::DataItem::PUSH, Clock(0)));
  Holder second(key, cluster.secret(GuardedCluster::member(key, 2)), cluster.shard());
  DataMessage hello = request::data_hello();
  hello.worker = WorkerId(2);
  hello.incarnation = Incarnation(102);
  CHECK(is_granted(second.ask(hello)));
  CHECK(is_granted(second.ask(request::item(2, pb::DataItem::PUSH, Clock(0)))));
  CHECK_FALSE(first.hear(std::chrono::milliseconds(100)));
  CHECK(cluster.unproven() == before + 3);
}

TEST_CASE("on a plain plane servers alone send images and ask for parts", "[rights]") {
  GuardedCluster cluster(true);
  const Security server_key = cluster.admit("server1", KeyRole::kServer);
  const Security worker_key = cluster.admit("worker0", KeyRole::kWorker);
  Holder server(server_key,
                cluster.secret({.use = TokenUse::kServe, .public_key = server_key.own.public_key}),
                cluster.shard());
  server.say(with_body(DataImages{}));
  // A worker has no server's secret, and one made for its key would not make it a server.
  Holder worker(worker_key, cluster.secret(GuardedCluster::member(worker_key, 0)), cluster.shard());
  Holder liar(worker_key,
              cluster.secret({.use = TokenUse::kServe, .public_key = worker_key.own.public_key}),
              cluster.shard());
  std::uint64_t sent = 0;
  for (const Kind& kind : kinds()) {
    if (!kind.serves) continue;
    worker.say(kind.message);
    ++sent;
  }
  const DataMessage refused = liar.ask(part_request());
  CHECK(std::get<DataPartReply>(refused.body).head.error().find("role server") !=
        std::string::npos);
  const TimePoint deadline = steady_now() + kMaxWait;
  while (cluster.unproven() < sent && steady_now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(cluster.unproven() == sent);
}
