#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/bounded_queue.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/config/job_state.hpp"
#include "proto/control_message.hpp"
#include "proto/wire_version.hpp"
#include "server/coordinator/coordinator_thread.hpp"
#include "server/job_view.hpp"
#include "server/shard_thread.hpp"
#include "tests/support/listed_keys.hpp"

namespace taut::test {

/// A coordinator and a shard on loopback, with keys, driven by the threads of the daemons. The
/// shard has a job, 7, of the members worker0 and worker1.
class GuardedCluster {
 public:
  /// is_plain  with data_security: TOKEN
  /// shard_at  where the shard listens
  explicit GuardedCluster(bool is_plain = false, const std::string& shard_at = "127.0.0.1:0")
      : listening_(listener(is_plain)), context_(listening_) {
    CoordinatorThread::Config config;
    config.tokens = context_.tokens();
    config.address = "127.0.0.1:0";
    coordinator_ =
        CoordinatorThread::start(context_.make_endpoint(), make_memory_store(), config).value();
    server::ShardThread::Options options;
    options.on_part_request = [](server::ShardThread& shard, PeerId from,
                                 const DataPartRequest& request) {
      DataPartReply done;
      done.head.set_request(request.head.request());
      shard.reply(from, std::move(done));
    };
    shard_ = server::ShardThread::start(context_, shard_at, std::move(options),
                                        [this](std::size_t, const server::ShardReport&) {
                                          (void)adopted_.push(true, Duration::zero());
                                        })
                 .value();
    shard_->set_job(ShardId(0), server::make_job_view(job()).value());
    (void)adopted_.pop(std::chrono::seconds(20));
  }

  [[nodiscard]] const std::string& coordinator() const { return coordinator_->address(); }
  [[nodiscard]] const std::string& shard() const { return shard_->address(); }
  /// What a process that listens uses, and the context of those that do here.
  [[nodiscard]] const Security& listening() const { return listening_; }
  [[nodiscard]] ZmqContext& context() { return context_; }

  /// What a process with this pair uses.
  [[nodiscard]] Security with(const KeyPair& own) const {
    Security security;
    security.own = own;
    security.cluster_key = pair_.public_key;
    return security;
  }
  /// A new key, admitted.
  [[nodiscard]] Security admit(const std::string& name, KeyRole role) {
    const KeyPair own = make_key_pair();
    keys_->admit(own.public_key, {name, role});
    return with(own);
  }
  void revoke(const Security& security) { keys_->revoke(security.own.public_key); }
  void end_admission() { context_.end_admission(); }

  /// The secret that the coordinator of a plain data plane would hand out for this.
  [[nodiscard]] DataToken secret(const TokenScope& scope) const {
    return context_.tokens()->make(scope);
  }
  /// Of a member of the job, with this key.
  [[nodiscard]] static TokenScope member(const Security& security, std::uint32_t worker) {
    return {.use = TokenUse::kTrain,
            .public_key = security.own.public_key,
            .job = JobId(7),
            .submission = kSubmission,
            .worker = WorkerId(worker),
            .incarnation = Incarnation(100 + worker)};
  }
  /// Hands a changed job to the shard, and waits until it has it.
  void change(const pb::ServerJob& job) {
    while (adopted_.pop(Duration::zero())) {
    }
    shard_->set_job(ShardId(0), server::make_job_view(job).value());
    (void)adopted_.pop(std::chrono::seconds(20));
  }
  [[nodiscard]] std::uint64_t unproven() const { return shard_->load().unproven_messages(); }

  static constexpr std::uint64_t kSubmission = 0xfeedULL;

  static pb::ServerJob job() {
    pb::ServerJob job;
    job.set_job(7);
    job.set_revision(1);
    job.set_submission(kSubmission);
    pb::SolverParameter& solver = *job.mutable_definition()->mutable_solver_param();
    solver.set_base_lr(0.5F);
    solver.set_max_iter(1000);
    for (std::uint32_t i = 0; i < 2; ++i) {
      pb::Member& member = *job.add_members();
      member.set_worker(i);
      member.set_incarnation(100 + i);
      member.set_name("worker" + std::to_string(i));
      member.set_leave_clock(Clock::never().value());
    }
    job.add_modes()->set_mode(pb::ModeChange::ON_ARRIVAL);
    job.set_slack(Slack::unbounded().clocks());
    job.set_hold_from(Clock::never().value());
    job.add_shards()->set_shard(0);
    return job;
  }

 private:
  Security listener(bool is_plain) {
    Security security = with(make_key_pair());
    security.plain_data = is_plain;
    security.cluster_secret = pair_.secret_key;
    security.admission = keys_;
    return security;
  }

  const KeyPair pair_ = make_key_pair();
  const std::shared_ptr<ListedKeys> keys_ = std::make_shared<ListedKeys>();
  const Security listening_;
  ZmqContext context_;
  std::unique_ptr<CoordinatorThread> coordinator_;
  BoundedQueue<bool> adopted_{8};  // whether the shard knows the job
  std::unique_ptr<server::ShardThread> shard_;
};

/// The requests that rights are about, as their senders would write them.
namespace request {

inline pb::ControlMessage hello(pb::Role role, const std::string& name) {
  pb::ControlMessage message;
  pb::Hello& hello = *message.mutable_hello();
  hello.set_wire_version(kWireVersion);
  hello.set_role(role);
  hello.set_name(name);
  hello.set_session(1);
  if (role == pb::ROLE_SERVER) hello.add_shard_addresses("127.0.0.1:1");
  return message;
}

inline pb::ControlMessage status() {
  pb::ControlMessage message;
  message.mutable_status_request();
  return message;
}

inline pb::ControlMessage set_trace() {
  pb::ControlMessage message;
  message.mutable_set_trace()->set_on(false);
  return message;
}

/// For a part of a coded checkpoint.
inline DataMessage part() {
  DataPartRequest request;
  request.head.set_kind(pb::PartRequest::CHECK);
  request.head.set_request(1);
  request.head.set_folder("/checkpoints/one");
  request.head.set_file("part0");
  return {JobId(), WorkerId(), Incarnation(), request};
}

/// From the member of this number.
inline DataMessage from_worker(std::uint32_t worker) {
  return {JobId(7), WorkerId(worker), Incarnation(100 + worker), {}};
}

inline DataMessage data_hello() {
  DataMessage message = from_worker(0);
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(job_hash(GuardedCluster::job().definition()));
  message.body = hello;
  return message;
}

inline DataMessage open_tables(std::uint32_t worker) {
  DataMessage message = from_worker(worker);
  pb::OpenTables requested;
  pb::TableSpec& table = *requested.add_tables();
  table.set_name("table0");
  table.add_shape(4);
  table.set_lr_mult(1);
  table.mutable_filler()->set_type("constant");
  message.body = requested;
  return message;
}

inline DataMessage item(std::uint32_t worker, DataItem::Kind kind, Clock clock = Clock(0)) {
  DataMessage message = from_worker(worker);
  DataItem one;
  one.kind = kind;
  one.count = 4;
  one.clock = clock;
  if (kind == pb::DataItem::PUSH) one.payload = Frame::copy_of(std::string(16, '\0'));
  message.body = DataItems{{one}};
  return message;
}

}  // namespace request

/// Whether an answer says that a request was granted.
inline bool is_granted(const pb::ControlMessage& answer) {
  switch (answer.body_case()) {
    case pb::ControlMessage::kHelloReply:
      return answer.hello_reply().accepted();
    case pb::ControlMessage::kStatusReply:
      return answer.status_reply().error().empty();
    case pb::ControlMessage::kCommandReply:
      return answer.command_reply().error().empty();
    default:
      return true;
  }
}

inline bool is_granted(const DataMessage& answer) {
  if (const auto* hello = std::get_if<pb::DataHelloReply>(&answer.body)) return hello->accepted();
  if (const auto* open = std::get_if<pb::OpenTablesReply>(&answer.body)) return open->accepted();
  if (const auto* part = std::get_if<DataPartReply>(&answer.body))
    return part->head.error().empty();
  if (const auto* batch = std::get_if<DataItems>(&answer.body)) {
    return batch->items.empty() || batch->items[0].kind != pb::DataItem::REFUSED;
  }
  return true;
}

}  // namespace taut::test
