#include "worker/client/client_driver.hpp"

#include <stdexcept>
#include <utility>

#include "common/log.hpp"

namespace taut {
namespace {

constexpr Bytes kKeptBytes{1ULL << 30U};

std::vector<ShardId> shard_ids(const ClientOptions& options) {
  std::vector<ShardId> ids;
  for (const ShardAddress& shard : options.shards) ids.push_back(shard.shard);
  return ids;
}

std::shared_ptr<BufferAllocator> allocator_of(const ClientOptions& options) {
  if (options.shared_memory) return options.shared_memory;
  return options.update_memory ? options.update_memory : host_allocator();
}

}  // namespace

ClientDriver::ClientDriver(std::unique_ptr<Endpoint> endpoint, const ClientOptions& options)
    : time_(options.time == nullptr ? machine_time() : *options.time),
      has_thread_(options.own_thread),
      endpoint_(std::move(endpoint)),
      connections_(*endpoint_, options.shared_memory, options.pinning),
      pool_(options.pool ? options.pool
                         : std::make_shared<BufferPool>(kKeptBytes, allocator_of(options))),
      load_(options.load),
      max_room_wait_(options.max_room_wait),
      shards_(shard_ids(options)),
      encoder_(options.encoding),
      weight_(options.weight),
      protocol_({options.job, options.worker, options.incarnation, options.job_hash,
                 options.replicated, options.max_kept},
                shards_, options.resend, options.send) {
  for (const ShardAddress& shard : options.shards) {
    if (auto connected = connections_.connect(shard); !connected) {
      throw std::runtime_error(connected.error().message);
    }
    (void)protocol_.move(shard.shard, shard.term, time_.now());
  }
  if (has_thread_) {
    thread_ = std::thread([this] { run(); });
  } else {
    expect_work();
  }
}

/// The next request wakes the endpoint, whose owner then calls work().
void ClientDriver::expect_work() {
  std::scoped_lock lock(inbox_mutex_);
  asleep_ = true;
}

void ClientDriver::work() {
  std::unique_lock lock(mutex_);
  if (led_ || stopping_) return;
  led_ = true;
  round(lock, Leader::kThread, Duration::zero());
  led_ = false;
  expect_work();
}

void ClientDriver::move_shards(std::vector<ShardAddress> shards) {
  {
    std::scoped_lock lock(mutex_);
    moves_.insert(moves_.end(), shards.begin(), shards.end());
  }
  wake_leader();
}

/// REQUIRES: the lock, and the lead.
void ClientDriver::move(const ShardAddress& shard) {
  if (!protocol_.move(shard.shard, shard.term, time_.now())) return;
  log::info("shard {} is served at {} from now on, term {}", shard.shard.value(), shard.address,
            shard.term);
  // If this fails, reads fail after their wait, and name the address.
  if (auto moved = connections_.move(shard); !moved) log::warn("{}", moved.error().message);
}

void ClientDriver::close() {
  {
    std::scoped_lock lock(mutex_);
    cancelled_ = true;
    stopping_ = true;
    changed_.notify_all();
  }
  wake_leader();
  if (thread_.joinable()) thread_.join();
  connections_.abandon_memory();
}

void ClientDriver::cancel() {
  {
    std::scoped_lock lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }
  wake_leader();
}

void ClientDriver::wake_leader() {
  {
    std::scoped_lock lock(inbox_mutex_);
    if (!std::exchange(asleep_, false)) return;
  }
  endpoint_->wake();
}

void ClientDriver::on_read(Client::OnRead notify) {
  std::scoped_lock lock(mutex_);
  notify_ = std::move(notify);
}

void ClientDriver::on_values(Client::OnValues take) {
  std::scoped_lock lock(mutex_);
  protocol_.on_values(std::move(take));
}

}  // namespace taut
