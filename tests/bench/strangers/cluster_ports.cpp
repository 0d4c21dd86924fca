// The rows of a coordinator, and of a shard's data plane.
#include <optional>
#include <string>
#include <utility>

#include "tests/bench/strangers/port_rows.hpp"

namespace taut::strangers {
namespace {

using test::GuardedCluster;
namespace request = test::request;

class ClusterPorts final : public Port {
 public:
  ClusterPorts(GuardedCluster& cluster, bool is_plain) : cluster_(cluster), is_plain_(is_plain) {}

  std::vector<Stranger> strangers() override {
    rows_ = usual_strangers(cluster_, {.port = "coordinator",
                                       .what = "status",
                                       .address = cluster_.coordinator(),
                                       .message = saying(request::status()),
                                       .is_granted = is_granted});
    add_control_rows();
    if (is_plain_) {
      add_plain_rows();
      return std::move(rows_);
    }
    const auto shard = usual_strangers(cluster_, {.port = "shard",
                                                  .what = "hello",
                                                  .address = cluster_.shard(),
                                                  .message = saying(request::data_hello()),
                                                  .is_granted = is_granted});
    rows_.insert(rows_.end(), shard.begin(), shard.end());
    add_data_rows();
    return std::move(rows_);
  }

  void end_admission() override { cluster_.end_admission(); }

 private:
  void add_control_rows() {
    const auto add = [&](const char* who, const char* what, bool may, KeyRole role,
                         const char* name, const pb::ControlMessage& message) {
      rows_.push_back({.port = "coordinator",
                       .who = who,
                       .what = what,
                       .address = cluster_.coordinator(),
                       .key = cluster_.admit(name, role),
                       .message = saying(message),
                       .is_granted = is_granted,
                       .may = may,
                       .connects = true});
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

  void add_data_rows() {
    const auto add = [&](const char* who, const char* what, bool may, KeyRole role,
                         const char* name, const DataMessage& message) {
      rows_.push_back({.port = "shard",
                       .who = who,
                       .what = what,
                       .address = cluster_.shard(),
                       .key = cluster_.admit(name, role),
                       .message = saying(message),
                       .is_granted = is_granted,
                       .may = may,
                       .connects = true,
                       .greeting = saying(request::data_hello())});
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
    // Any server may ask for parts: they are bound to no name.
    add("server2", "part of a checkpoint", true, KeyRole::kServer, "server2", request::part());
    add("wrong role: view", "part of a checkpoint", false, KeyRole::kView, "v2", request::part());
    add("wrong role: submit", "part of a checkpoint", false, KeyRole::kSubmit, "alice",
        request::part());
    add("wrong role: worker", "part of a checkpoint", false, KeyRole::kWorker, "worker0",
        request::part());
  }

  /// One at the shard whose data plane is plain.
  void add_plain_row(const char* who, const char* what, const DataMessage& message,
                     const Security& key, std::optional<DataToken> token) {
    rows_.push_back({.port = "shard",
                     .who = who,
                     .what = what,
                     .address = cluster_.shard(),
                     .key = key,
                     .message = saying(message),
                     .is_granted = is_granted,
                     .token = std::move(token),
                     .is_dropped = true});
  }

  /// The last row's request is granted.
  void grant(const std::function<Message()>& greeting = {}) {
    rows_.back().may = true;
    rows_.back().is_dropped = false;
    rows_.back().greeting = greeting;
  }

  void add_plain_rows() {
    const DataMessage hello = request::data_hello();
    const DataMessage push = request::item(0, pb::DataItem::PUSH);
    const Security own = cluster_.admit("worker0", KeyRole::kWorker);
    const TokenScope member = GuardedCluster::member(own, 0);
    const auto right = cluster_.secret(member);
    add_plain_row("worker0's secret", "hello", hello, own, right);
    grant();
    add_plain_row("worker0's secret", "open tables as worker0", request::open_tables(0), own,
                  right);
    grant(saying(hello));
    add_plain_row("worker0's secret", "push as worker0", push, own, right);
    grant(saying(hello));
    add_plain_row("a key, no secret", "hello", hello, own, std::nullopt);
    add_plain_row("no key, no secret", "hello", hello, Security::insecure(), std::nullopt);
    add_plain_row("a secret of chance", "hello", hello, own,
                  DataToken::from(std::string(DataToken::kRequestBytes, 'x'),
                                  std::string(DataToken::kAnswerBytes, 'x')));
    add_plain_row("of another cluster", "hello", hello, own,
                  TokenKey(make_key_pair().secret_key).make(member));
    add_revoked_plain_rows(hello);
    const Security other = cluster_.admit("worker1", KeyRole::kWorker);
    add_plain_row("another's: worker1", "push as worker0", push, other,
                  cluster_.secret(GuardedCluster::member(other, 1)));
    TokenScope scope = member;
    scope.incarnation = Incarnation(99);
    add_plain_row("of an earlier life", "push as worker0", push, own, cluster_.secret(scope));
    scope = member;
    scope.submission -= 1;
    add_plain_row("of an earlier job", "push as worker0", push, own, cluster_.secret(scope));
    scope = member;
    scope.use = TokenUse::kRead;
    add_plain_row("a reader's", "push as worker0", push, own, cluster_.secret(scope));
    for (const auto& [who, use] : {std::pair("a server's", TokenUse::kServe),
                                   std::pair("of a check of links", TokenUse::kCheck)}) {
      add_plain_row(who, "push as worker0", push, own,
                    cluster_.secret({.use = use, .public_key = own.own.public_key}));
    }
    const Security server = cluster_.admit("server2", KeyRole::kServer);
    add_plain_row("a server's", "part of a checkpoint", request::part(), server,
                  cluster_.secret({.use = TokenUse::kServe, .public_key = server.own.public_key}));
    grant();
    add_plain_row("worker0's secret", "part of a checkpoint", request::part(), own, right);
  }

  void add_revoked_plain_rows(const DataMessage& hello) {
    const auto secret = [&](const Security& key) {
      return cluster_.secret(GuardedCluster::member(key, 0));
    };
    const Security unknown = cluster_.with(make_key_pair());
    add_plain_row("of an unknown key", "hello", hello, unknown, secret(unknown));
    const Security revoked = cluster_.admit("revoked", KeyRole::kOwner);
    cluster_.revoke(revoked);
    add_plain_row("of a revoked key", "hello", hello, revoked, secret(revoked));
    const Security late = cluster_.admit("late", KeyRole::kOwner);
    add_plain_row("revoked, connection open", "hello", hello, late, secret(late));
    rows_.back().revoke = [this, late] { cluster_.revoke(late); };
  }

  GuardedCluster& cluster_;
  const bool is_plain_;
  std::vector<Stranger> rows_;
};

}  // namespace

std::vector<Stranger> usual_strangers(GuardedCluster& cluster, const Stranger& friendly) {
  std::vector<Stranger> rows;
  const auto add = [&](const char* who, const Security& key) -> Stranger& {
    Stranger& row = rows.emplace_back(friendly);
    row.who = who;
    row.key = key;
    return row;
  };
  add("view", cluster.admit("v", KeyRole::kView)).may = true;
  add("none", Security::insecure());
  Security elsewhere = cluster.admit("elsewhere", KeyRole::kOwner);
  elsewhere.cluster_key = make_key_pair().public_key;
  add("right, for another cluster", elsewhere);
  add("unknown", cluster.with(make_key_pair()));
  const Security revoked = cluster.admit("revoked", KeyRole::kOwner);
  cluster.revoke(revoked);
  add("revoked", revoked);
  const Security late = cluster.admit("late", KeyRole::kOwner);
  add("revoked, connection open", late).revoke = [&cluster, late] { cluster.revoke(late); };
  return rows;
}

std::unique_ptr<Port> cluster_ports(GuardedCluster& cluster, bool is_plain) {
  return std::make_unique<ClusterPorts>(cluster, is_plain);
}

}  // namespace taut::strangers
