// Roles and names over the sockets of a coordinator and a shard, as the daemons drive them.
#include "proto/rights.hpp"

#include "tests/support/catch.hpp"
#include "tests/unit/server/guarded_cluster.hpp"

using namespace taut;
using test::GuardedCluster;
using test::is_granted;
namespace request = test::request;

namespace {

constexpr Duration kWait = std::chrono::seconds(20);

pb::ControlMessage decoded(const Message& message, const pb::ControlMessage& /*of*/) {
  return decode_control(message).value();
}
DataMessage decoded(const Message& message, const DataMessage& /*of*/) {
  return decode_data(message).value();
}

std::string reason_of(const pb::ControlMessage& answer) {
  return answer.hello_reply().reason() + answer.status_reply().error() +
         answer.command_reply().error() + answer.submit_reply().error() +
         answer.log_reply().error() + answer.follow_reply().error();
}
std::string reason_of(const DataMessage& answer) {
  if (const auto* open = std::get_if<pb::OpenTablesReply>(&answer.body)) return open->reason();
  const auto* batch = std::get_if<DataItems>(&answer.body);
  return batch == nullptr || batch->items.empty() ? std::string() : batch->items[0].reason;
}

/// A process with a key, and its connection to one of the cluster's ports.
struct Caller {
  Caller(const Security& security, const std::string& address) : context(security) {
    endpoint = context.make_endpoint();
    peer = endpoint->connect(address).value();
  }
  template <class Body>
  void say(const Body& message) {
    (void)endpoint->send(peer, encode(message));
  }
  template <class Body>
  Body ask(const Body& message) {
    say(message);
    const TimePoint deadline = steady_now() + kWait;
    while (steady_now() < deadline) {
      const auto got = endpoint->receive(std::chrono::milliseconds(100));
      if (got) return decoded(got->message, message);
    }
    FAIL("no answer");
    return message;
  }

  ZmqContext context;
  std::unique_ptr<Endpoint> endpoint;
  PeerId peer;
};

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("each role may ask the coordinator for what the table grants, and no more", "[rights]") {
  GuardedCluster cluster;
  struct Row {
    KeyRole role;
    bool reads;
    bool changes;
    bool joins_as_worker;
    bool joins_as_server;
  };
  for (const Row& row : {Row{KeyRole::kView, true, false, false, false},
                         Row{KeyRole::kSubmit, true, true, false, false},
                         Row{KeyRole::kWorker, true, false, true, false},
                         Row{KeyRole::kServer, true, false, false, true},
                         Row{KeyRole::kOwner, true, true, true, true}}) {
    const std::string name = "caller" + std::to_string(static_cast<int>(row.role));
    INFO(name);
    const Security key = cluster.admit(name, row.role);
    Caller caller(key, cluster.coordinator());
    CHECK(is_granted(caller.ask(request::hello(pb::ROLE_CLIENT, "x"))) == row.reads);
    CHECK(is_granted(caller.ask(request::status())) == row.reads);
    const auto changed = caller.ask(request::set_trace());
    CHECK(is_granted(changed) == row.changes);
    if (!row.changes) CHECK(contains(reason_of(changed), "role submit"));
    Caller worker(key, cluster.coordinator());
    CHECK(is_granted(worker.ask(request::hello(pb::ROLE_WORKER, name))) == row.joins_as_worker);
    Caller server(key, cluster.coordinator());
    CHECK(is_granted(server.ask(request::hello(pb::ROLE_SERVER, name))) == row.joins_as_server);
  }
}

TEST_CASE("a view key submits nothing, changes nothing and stops nothing", "[rights]") {
  GuardedCluster cluster;
  Caller reader(cluster.admit("reader", KeyRole::kView), cluster.coordinator());
  pb::ControlMessage submit;
  submit.mutable_submit();
  pb::ControlMessage slack;
  slack.mutable_set_slack();
  pb::ControlMessage stop;
  stop.mutable_stop_job();
  pb::ControlMessage checkpoint;
  checkpoint.mutable_make_checkpoint();
  for (const pb::ControlMessage& message :
       {submit, slack, stop, checkpoint, request::set_trace()}) {
    CHECK(contains(reason_of(reader.ask(message)), "requires a key of the role submit"));
  }
}

TEST_CASE("who says that it passes models on has a server's key of its name", "[rights]") {
  GuardedCluster cluster;
  const auto refusal = [&](const std::string& name, KeyRole role, const std::string& claimed,
                           bool bounded) {
    Caller caller(cluster.admit(name, role), cluster.coordinator());
    pb::ControlMessage message;
    message.mutable_follow()->set_job(77);
    message.mutable_follow()->set_follower(1);
    message.mutable_follow()->set_name(claimed);
    message.mutable_follow()->set_bounded(bounded);
    message.mutable_follow()->set_address("10.0.0.1:1");
    return reason_of(caller.ask(message));
  };
  CHECK(contains(refusal("reader", KeyRole::kView, "reader", false), "a key of the role server"));
  CHECK(contains(refusal("bound", KeyRole::kWorker, "bound", true), "a key of the role server"));
  CHECK(contains(refusal("relay", KeyRole::kServer, "relay", true), "a key of the role worker"));
  CHECK(contains(refusal("relay2", KeyRole::kServer, "relay3", false), "is not that of"));
  CHECK(contains(refusal("relay4", KeyRole::kServer, "relay4", false), "job 77 does not exist"));
  CHECK(contains(refusal("all", KeyRole::kOwner, "any", true), "job 77 does not exist"));
}

TEST_CASE("a daemon's key joins under its own name alone", "[rights]") {
  GuardedCluster cluster;
  const Security key = cluster.admit("worker1", KeyRole::kWorker);
  Caller impostor(key, cluster.coordinator());
  const auto refused = impostor.ask(request::hello(pb::ROLE_WORKER, "worker0"));
  CHECK_FALSE(is_granted(refused));
  CHECK(contains(reason_of(refused), "is not that of \"worker0\""));
  CHECK(is_granted(impostor.ask(request::hello(pb::ROLE_WORKER, "worker1"))));
  Caller server(cluster.admit("server1", KeyRole::kServer), cluster.coordinator());
  CHECK_FALSE(is_granted(server.ask(request::hello(pb::ROLE_SERVER, "server0"))));
  // What is not answered has no effect either: the goodbye of a reader ends no worker.
  Caller reader(cluster.admit("reader", KeyRole::kView), cluster.coordinator());
  pb::ControlMessage goodbye;
  goodbye.mutable_goodbye()->set_reason("mischief");
  reader.say(goodbye);
  CHECK(is_granted(reader.ask(request::status())));
}

TEST_CASE("a shard takes updates from the worker whose key it is, and from no other", "[rights]") {
  GuardedCluster cluster;
  Caller own(cluster.admit("worker0", KeyRole::kWorker), cluster.shard());
  REQUIRE(is_granted(own.ask(request::data_hello())));
  REQUIRE(is_granted(own.ask(request::open_tables(0))));
  const auto push = [](std::int64_t clock) {
    return request::item(0, pb::DataItem::PUSH, Clock(clock));
  };
  CHECK(is_granted(own.ask(push(0))));
  for (const auto& [name, role] :
       {std::pair("worker1", KeyRole::kWorker), std::pair("reader", KeyRole::kView),
        std::pair("alice", KeyRole::kSubmit), std::pair("server0", KeyRole::kServer)}) {
    INFO(name);
    Caller other(cluster.admit(name, role), cluster.shard());
    CHECK(is_granted(other.ask(request::data_hello())));
    CHECK_FALSE(is_granted(other.ask(request::open_tables(0))));
    const auto refused = other.ask(push(1));
    CHECK_FALSE(is_granted(refused));
    CHECK(contains(reason_of(refused), "the key \"" + std::string(name) + "\""));
    CHECK_FALSE(is_granted(other.ask(request::item(0, pb::DataItem::READ))));
    CHECK_FALSE(is_granted(other.ask(request::item(0, pb::DataItem::SETTLE))));
    // Every admitted process may read the parameters.
    CHECK(is_granted(other.ask(request::item(0, pb::DataItem::SNAPSHOT))));
  }
  CHECK(is_granted(own.ask(push(1))));
  Caller owner(cluster.admit("me", KeyRole::kOwner), cluster.shard());
  REQUIRE(is_granted(owner.ask(request::data_hello())));
  CHECK(is_granted(owner.ask(request::item(1, pb::DataItem::PUSH))));
}

TEST_CASE("images of slices and parts of checkpoints come from servers alone", "[rights]") {
  DataMessage images;
  images.body = DataImages{};
  DataMessage kept;
  kept.body = pb::SliceImagesReply();
  DataMessage part;
  part.body = DataPartRequest{};
  for (const DataMessage* message : {&images, &kept, &part}) {
    for (const KeyRole role : {KeyRole::kView, KeyRole::kSubmit, KeyRole::kWorker}) {
      const Identity other{"worker0", role};
      CHECK_FALSE(refusal_of(&other, *message, "").empty());
    }
    const Identity server{"server0", KeyRole::kServer};
    CHECK(refusal_of(&server, *message, "").empty());
    CHECK(refusal_of(nullptr, *message, "").empty());
  }
}

TEST_CASE("a message that only the coordinator sends is refused from every peer", "[rights]") {
  pb::ControlMessage job;
  job.mutable_server_job();
  for (const KeyRole role :
       {KeyRole::kView, KeyRole::kSubmit, KeyRole::kWorker, KeyRole::kServer}) {
    const Identity sender{"x", role};
    CHECK_FALSE(refusal_of(&sender, job).empty());
    CHECK_FALSE(refusal_of(&sender, pb::ControlMessage()).empty());
  }
}
