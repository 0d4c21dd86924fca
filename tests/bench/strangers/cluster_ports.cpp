// The rows of a coordinator, and of a shard's data plane.
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
      const auto shard = plain_rows(cluster_);
      rows_.insert(rows_.end(), shard.begin(), shard.end());
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
