#include "server/shard_thread.hpp"

#include <bit>
#include <exception>
#include <utility>

#include "common/log.hpp"

namespace taut::server {
namespace {

constexpr Duration kIdle{100'000};

}  // namespace

Result<std::unique_ptr<ShardThread>> ShardThread::start(ZmqContext& context,
                                                        const std::string& address,
                                                        std::size_t index, OnReport on_report) {
  auto endpoint = context.make_endpoint();
  TAUT_TRY(std::string bound, endpoint->bind(address));
  return std::unique_ptr<ShardThread>(
      new ShardThread(std::move(endpoint), std::move(bound), index, std::move(on_report)));
}

ShardThread::ShardThread(std::unique_ptr<Endpoint> endpoint, std::string address, std::size_t index,
                         OnReport on_report)
    : endpoint_(std::move(endpoint)),
      address_(std::move(address)),
      index_(index),
      on_report_(std::move(on_report)),
      shard_(ShardId(static_cast<std::uint32_t>(index)), pool_),
      thread_([this] { run(); }) {}

ShardThread::~ShardThread() {
  stopping_ = true;
  commands_.close();
  endpoint_->wake();
  thread_.join();
}

void ShardThread::set_job(ShardId id, std::shared_ptr<const JobView> view) {
  // A queue that stays full belongs to a shard that hangs; the coordinator will send again.
  if (!commands_.push({id, std::move(view)}, Duration(1'000'000))) return;
  endpoint_->wake();
}

void ShardThread::run() {
  log::set_context(static_cast<std::int64_t>(index_), -1);
  while (!stopping_) {
    while (auto command = commands_.pop(Duration::zero())) obey(*command);
    if (auto incoming = endpoint_->receive(kIdle)) receive(*incoming);
  }
}

void ShardThread::obey(const Command& command) {
  shard_.set_id(command.id);
  send(shard_.set_job(command.view));
  ShardReport report = shard_.report(command.view->job);
  if (command.view->finished) {
    report.job = command.view->job;
    report.revision = command.view->revision;
  }
  on_report_(index_, std::move(report));
}

void ShardThread::receive(const Incoming& incoming) {
  auto message = decode_data(incoming.message);
  if (!message) {
    // The 1st, 2nd, 4th, 8th ...: a peer cannot fill the log.
    if (std::has_single_bit(++undecodable_)) {
      log::warn("dropped a message at {} ({} so far): {}", address_, undecodable_,
                message.error().message);
    }
    return;
  }
  send(shard_.handle(incoming.from, std::move(message.value())));
}

void ShardThread::send(std::vector<Outgoing> messages) {
  for (Outgoing& one : messages) {
    // A peer that has gone comes back as another one and asks again.
    if (auto sent = endpoint_->send(one.to, encode(one.message)); !sent) {
      log::debug("{}", sent.error().message);
    }
  }
}

}  // namespace taut::server
