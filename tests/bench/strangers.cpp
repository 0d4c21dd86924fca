// How many of many tries of each kind of stranger get anything through: to a coordinator and to a
// shard, with the handler that admits keys alive and without it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/log.hpp"
#include "tests/unit/server/guarded_cluster.hpp"

namespace {

using namespace taut;
using test::GuardedCluster;
namespace request = test::request;

constexpr Duration kAnswerWait = std::chrono::seconds(10);
// Refusals arrive within milliseconds; a handler that is gone may leave a handshake pending.
constexpr Duration kBatchWait = std::chrono::seconds(2);
constexpr int kBatch = 50;

bool is_granted(const Message& message) {
  if (const auto control = decode_control(message)) return test::is_granted(control.value());
  if (const auto data = decode_data(message)) return test::is_granted(data.value());
  return true;
}

/// One row of the table.
struct Kind {
  std::string who;
  std::string what;
  bool is_shard = false;
  bool is_control_row = false;  // the same request from who may make it: all must be granted
  Security key;
  std::function<Message()> message;
  std::function<Message()> greeting = {};  // first on each connection; empty: none
  std::optional<DataToken> token = {};     // what its messages to a plain data plane carry
  bool is_dropped = false;                 // what it says gets no answer at all
};

/// Tries that get an answer that grants them, or any answer where the key must not connect at all.
int connect_and_ask(const Kind& kind, const std::string& address, int tries) {
  ZmqContext context(kind.key);
  int granted = 0;
  for (int done = 0; done < tries; done += kBatch) {
    const auto endpoint = context.make_endpoint();
    endpoint->use_token(kind.token);
    std::set<PeerId> waiting;
    for (int i = 0; i < std::min(kBatch, tries - done); ++i) {
      const PeerId peer = endpoint->connect(address).value();
      (void)endpoint->send(peer, kind.message());
      waiting.insert(peer);
    }
    const TimePoint deadline = steady_now() + kBatchWait;
    while (!waiting.empty() && steady_now() < deadline) {
      if (const auto got = endpoint->receive(std::chrono::milliseconds(20))) {
        granted += static_cast<int>(is_granted(got->message));
        waiting.erase(got->from);
      }
      std::erase_if(waiting, [&](PeerId peer) { return endpoint->refusal(peer).has_value(); });
    }
  }
  return granted;
}

/// The same over one connection.
int ask_often(const Kind& kind, const std::string& address, int tries) {
  ZmqContext context(kind.key);
  const auto endpoint = context.make_endpoint();
  endpoint->use_token(kind.token);
  const PeerId peer = endpoint->connect(address).value();
  const auto ask = [&](const Message& message) {
    (void)endpoint->send(peer, message);
    const TimePoint deadline = steady_now() + kAnswerWait;
    while (steady_now() < deadline) {
      if (const auto got = endpoint->receive(std::chrono::milliseconds(100))) {
        return is_granted(got->message);
      }
      if (endpoint->refusal(peer)) return false;
    }
    return false;
  };
  if (kind.greeting && !ask(kind.greeting())) return 0;
  int granted = 0;
  for (int i = 0; i < tries; ++i) granted += static_cast<int>(ask(kind.message()));
  return granted;
}

/// The same where nothing is answered: all are sent, then it listens.
int ask_in_vain(const Kind& kind, const std::string& address, int tries) {
  ZmqContext context(kind.key);
  const auto endpoint = context.make_endpoint();
  endpoint->use_token(kind.token);
  const PeerId peer = endpoint->connect(address).value();
  if (kind.greeting) (void)endpoint->send(peer, kind.greeting());
  for (int i = 0; i < tries; ++i) (void)endpoint->send(peer, kind.message());
  int granted = 0;
  while (const auto got = endpoint->receive(kBatchWait)) {
    granted += static_cast<int>(is_granted(got->message));
  }
  return granted;
}

/// A key that is revoked while its connection is open; answers that arrive afterwards.
int ask_after_revocation(GuardedCluster& cluster, const Kind& kind, const std::string& address,
                         int tries) {
  ZmqContext context(kind.key);
  const auto endpoint = context.make_endpoint();
  endpoint->use_token(kind.token);
  const PeerId peer = endpoint->connect(address).value();
  (void)endpoint->send(peer, kind.greeting ? kind.greeting() : kind.message());
  if (!endpoint->receive(kAnswerWait)) return -1;  // it never was admitted
  cluster.revoke(kind.key);
  int answers = 0;
  for (int i = 0; i < tries; ++i) {
    (void)endpoint->send(peer, kind.message());
    if (endpoint->receive(std::chrono::milliseconds(1))) ++answers;
  }
  const TimePoint deadline = steady_now() + kBatchWait;
  while (steady_now() < deadline) {
    if (endpoint->receive(std::chrono::milliseconds(50))) ++answers;
  }
  return answers;
}

std::function<Message()> control(const pb::ControlMessage& message) {
  return [message] { return encode(message); };
}
std::function<Message()> data(const DataMessage& message) {
  return [message] { return encode(message); };
}

class Strangers {
 public:
  /// is_plain  the shard's plane is plain: its peers prove themselves by secrets
  Strangers(int tries, bool is_plain) : tries_(tries), is_plain_(is_plain), cluster_(is_plain) {}

  /// Whether no stranger got anything through.
  bool run() {
    fmt::print("{} tries each; granted with the handler alive, and without it\n\n", tries_);
    fmt::print("{:12} {:34} {:38} {:>8} {:>8}\n", "port", "key", "request", "alive", "dead");
    const auto kinds = all_kinds();
    std::vector<int> alive;
    alive.reserve(kinds.size());
    for (const Kind& kind : kinds) alive.push_back(try_alive(kind));
    cluster_.end_admission();
    // Its socket closes a moment later.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    bool is_tight = true;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const int dead = connect_and_ask(kinds[i], address_of(kinds[i]), tries_);
      const int expected = kinds[i].is_control_row ? tries_ : 0;
      is_tight = is_tight && alive[i] == expected && dead == 0;
      fmt::print("{:12} {:34} {:38} {:>8} {:>8}{}\n", kinds[i].is_shard ? "shard" : "coordinator",
                 kinds[i].who, kinds[i].what, alive[i], dead,
                 alive[i] == expected && dead == 0 ? "" : "  WRONG");
    }
    return is_tight;
  }

 private:
  [[nodiscard]] std::string address_of(const Kind& kind) const {
    return kind.is_shard ? cluster_.shard() : cluster_.coordinator();
  }
  int try_alive(const Kind& kind) {
    if (kind.who == "revoked, connection open") {
      return ask_after_revocation(cluster_, kind, address_of(kind), tries_);
    }
    if (kind.is_dropped) return ask_in_vain(kind, address_of(kind), tries_);
    const bool may_connect = kind.greeting || kind.is_control_row || !is_stranger(kind);
    return may_connect ? ask_often(kind, address_of(kind), tries_)
                       : connect_and_ask(kind, address_of(kind), tries_);
  }
  static bool is_stranger(const Kind& kind) { return strangers().contains(kind.who); }
  static const std::set<std::string>& strangers() {
    static const std::set<std::string> who = {"none", "right, for another cluster", "unknown",
                                              "revoked"};
    return who;
  }

  std::vector<Kind> all_kinds() {
    std::vector<Kind> kinds;
    for (const bool is_shard : {false, true}) {
      if (is_shard && is_plain_) continue;
      const auto friendly = is_shard ? data(request::data_hello()) : control(request::status());
      const char* const what = is_shard ? "hello" : "status";
      Security elsewhere = cluster_.admit("elsewhere", KeyRole::kOwner);
      elsewhere.cluster_key = make_key_pair().public_key;
      const Security revoked = cluster_.admit("revoked", KeyRole::kOwner);
      cluster_.revoke(revoked);
      kinds.push_back(
          {"view", what, is_shard, true, cluster_.admit("v", KeyRole::kView), friendly, {}});
      kinds.push_back({"none", what, is_shard, false, Security::insecure(), friendly, {}});
      kinds.push_back(
          {"right, for another cluster", what, is_shard, false, elsewhere, friendly, {}});
      kinds.push_back(
          {"unknown", what, is_shard, false, cluster_.with(make_key_pair()), friendly, {}});
      kinds.push_back({"revoked", what, is_shard, false, revoked, friendly, {}});
      kinds.push_back({"revoked, connection open",
                       what,
                       is_shard,
                       false,
                       cluster_.admit("late", KeyRole::kOwner),
                       friendly,
                       {}});
    }
    add_control_kinds(kinds);
    if (is_plain_) {
      add_plain_kinds(kinds);
    } else {
      add_data_kinds(kinds);
    }
    return kinds;
  }

  void add_control_kinds(std::vector<Kind>& kinds) {
    const auto add = [&](const char* who, const char* what, bool may, KeyRole role,
                         const char* name, const pb::ControlMessage& message) {
      kinds.push_back({who, what, false, may, cluster_.admit(name, role), control(message), {}});
    };
    add("submit", "trace", true, KeyRole::kSubmit, "alice", request::set_trace());
    add("wrong role: view", "trace", false, KeyRole::kView, "bob", request::set_trace());
    add("wrong role: worker", "trace", false, KeyRole::kWorker, "w", request::set_trace());
    add("wrong role: server", "trace", false, KeyRole::kServer, "s", request::set_trace());
    add("worker0", "join as worker0", true, KeyRole::kWorker, "worker0",
        request::hello(pb::ROLE_WORKER, "worker0"));
    add("wrong role: submit", "join as worker1", false, KeyRole::kSubmit, "worker1",
        request::hello(pb::ROLE_WORKER, "worker1"));
    add("wrong role: worker", "join as server", false, KeyRole::kWorker, "server0",
        request::hello(pb::ROLE_SERVER, "server0"));
    add("another's: worker1", "join as worker0", false, KeyRole::kWorker, "worker1",
        request::hello(pb::ROLE_WORKER, "worker0"));
    add("another's: server1", "join as server0", false, KeyRole::kServer, "server1",
        request::hello(pb::ROLE_SERVER, "server0"));
  }

  void add_data_kinds(std::vector<Kind>& kinds) {
    const auto add = [&](const char* who, const char* what, bool may, KeyRole role,
                         const char* name, const DataMessage& message) {
      kinds.push_back({who, what, true, may, cluster_.admit(name, role), data(message),
                       data(request::data_hello())});
    };
    const auto push = request::item(0, pb::DataItem::PUSH);
    add("worker0", "open tables as worker0", true, KeyRole::kWorker, "worker0",
        request::open_tables(0));
    add("worker0", "push as worker0", true, KeyRole::kWorker, "worker0", push);
    add("wrong role: view", "push as worker0", false, KeyRole::kView, "v2", push);
    add("wrong role: submit", "push as worker0", false, KeyRole::kSubmit, "worker0", push);
    add("wrong role: server", "push as worker0", false, KeyRole::kServer, "worker0", push);
    add("another's: worker1", "push as worker0", false, KeyRole::kWorker, "worker1", push);
    add("another's: worker1", "read as worker0", false, KeyRole::kWorker, "worker1",
        request::item(0, pb::DataItem::READ));
    add("another's: worker1", "open tables as worker0", false, KeyRole::kWorker, "worker1",
        request::open_tables(0));
  }

  /// Those at a shard whose data plane is plain.
  void add_plain_kinds(std::vector<Kind>& kinds) {
    const auto hello = data(request::data_hello());
    const auto push = data(request::item(0, pb::DataItem::PUSH));
    const Security own = cluster_.admit("worker0", KeyRole::kWorker);
    const TokenScope member = GuardedCluster::member(own, 0);
    const auto right = cluster_.secret(member);
    const auto add = [&](const char* who, const char* what, const std::function<Message()>& message,
                         const Security& key, std::optional<DataToken> token) {
      kinds.push_back({who, what, true, false, key, message, {}, std::move(token), true});
    };
    kinds.push_back({"worker0's secret", "hello", true, true, own, hello, {}, right});
    kinds.push_back({"worker0's secret", "open tables as worker0", true, true, own,
                     data(request::open_tables(0)), hello, right});
    kinds.push_back({"worker0's secret", "push as worker0", true, true, own, push, hello, right});
    add("a key, no secret", "hello", hello, own, std::nullopt);
    add("no key, no secret", "hello", hello, Security::insecure(), std::nullopt);
    add("a secret of chance", "hello", hello, own,
        DataToken::from(std::string(DataToken::kRequestBytes, 'x'),
                        std::string(DataToken::kAnswerBytes, 'x')));
    add("of another cluster", "hello", hello, own,
        TokenKey(make_key_pair().secret_key).make(member));
    const Security unknown = cluster_.with(make_key_pair());
    add("of an unknown key", "hello", hello, unknown,
        cluster_.secret(GuardedCluster::member(unknown, 0)));
    const Security revoked = cluster_.admit("revoked", KeyRole::kOwner);
    cluster_.revoke(revoked);
    add("of a revoked key", "hello", hello, revoked,
        cluster_.secret(GuardedCluster::member(revoked, 0)));
    const Security late = cluster_.admit("late", KeyRole::kOwner);
    kinds.push_back({"revoked, connection open",
                     "hello",
                     true,
                     false,
                     late,
                     hello,
                     {},
                     cluster_.secret(GuardedCluster::member(late, 0))});
    const Security other = cluster_.admit("worker1", KeyRole::kWorker);
    add("another's: worker1", "push as worker0", push, other,
        cluster_.secret(GuardedCluster::member(other, 1)));
    TokenScope scope = member;
    scope.incarnation = Incarnation(99);
    add("of an earlier life", "push as worker0", push, own, cluster_.secret(scope));
    scope = member;
    scope.submission -= 1;
    add("of an earlier job", "push as worker0", push, own, cluster_.secret(scope));
    scope = member;
    scope.use = TokenUse::kRead;
    add("a reader's", "push as worker0", push, own, cluster_.secret(scope));
    for (const auto& [who, use] : {std::pair("a server's", TokenUse::kServe),
                                   std::pair("of a check of links", TokenUse::kCheck)}) {
      add(who, "push as worker0", push, own,
          cluster_.secret({.use = use, .public_key = own.own.public_key}));
    }
  }

  const int tries_;
  const bool is_plain_;
  GuardedCluster cluster_;
};

}  // namespace

int main(int argc, char** argv) {
  int tries = 1000;
  CLI::App app("Counts what strangers get through to a coordinator and a shard with keys.");
  bool is_plain = false;
  app.add_option("--tries", tries, "Of each kind")->check(CLI::Range(1, 1000000));
  app.add_flag("--plain", is_plain,
               "Under data_security: TOKEN, where the shard's peers prove themselves by secrets");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  log::Options quiet;
  quiet.level = "error";
  if (!log::start(quiet)) return 1;
  const bool is_tight = Strangers(tries, is_plain).run();
  fmt::print("\n{}\n", is_tight ? "no stranger got anything through"
                                : "SOMETHING IS WRONG: see the rows above");
  return is_tight ? 0 : 1;
}
