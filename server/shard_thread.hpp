#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>

#include "common/bounded_queue.hpp"
#include "common/net/buffer_pool.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "server/job_view.hpp"
#include "server/replication/image_links.hpp"
#include "server/shard.hpp"
#include "server/shared_peers.hpp"

namespace taut::server {

/// A shard with its socket and its thread. Nothing on its data path is shared with another shard.
/// Thread    any, for everything public
class ShardThread {
 public:
  using OnReport = std::function<void(std::size_t index, ShardReport)>;
  struct Options {
    std::size_t index = 0;             // of this shard within its server
    bool shared_memory = true;         // with workers of the same machine
    WeightsSource* initial = nullptr;  // outlives the thread; nullptr: fillers alone
    /// Called on the shard's thread with what it has captured for a checkpoint; may be empty.
    std::function<void(std::size_t index, ShardCapture)> on_capture = {};
    /// Called on the shard's thread with memory to prepare for the next capture; may be empty.
    std::function<void(SpareStock)> on_stock = {};
    /// Called on the shard's thread with memory to return to the system; if empty, it is returned
    /// at once.
    std::function<void(SpareExcess)> on_excess = {};
    /// Called on the shard's thread with another server's request about parts of coded checkpoints;
    /// the answer goes to reply() of this shard. If empty, such requests are not answered.
    std::function<void(ShardThread& shard, PeerId from, DataPartRequest)> on_part_request = {};
    std::shared_ptr<TableMemory> memory{};  // what the server's tables may take; nullptr: no limit
  };

  /// Binds and starts.
  /// on_report  is called on the shard's thread after each change of a job
  /// Errors     exists: the port is in use; invalid: an address that cannot be bound
  [[nodiscard]] static Result<std::unique_ptr<ShardThread>> start(ZmqContext& context,
                                                                  const std::string& address,
                                                                  Options options,
                                                                  OnReport on_report);
  /// Stops and joins.
  ~ShardThread();
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;

  /// The address as bound.
  [[nodiscard]] const std::string& address() const { return address_; }
  /// What it has done so far.
  [[nodiscard]] pb::ShardLoad load() const;
  /// The reads and updates that wait at it.
  [[nodiscard]] ShardQueues queues() const;
  /// Passes a new view of a job to the shard; `id` is the shard's number in it.
  /// begin  with the first view of a resumed job; may be nullptr
  void set_job(ShardId id, std::shared_ptr<const JobView> view,
               std::shared_ptr<ShardImages> begin = nullptr);

  /// Sends an answer. If too many are queued, it is dropped, and the request will be repeated.
  void reply(PeerId to, DataPartReply answer);

 private:
  struct Command {
    ShardId id;
    std::shared_ptr<const JobView> view;
    std::shared_ptr<ShardImages> begin;
  };
  ShardThread(std::unique_ptr<Endpoint> endpoint, std::string address, Options options,
              std::shared_ptr<SharedArena> arena, OnReport on_report);
  void run();
  void execute(const Command& command);
  void hand_captures_out();
  void receive(const Incoming& incoming);
  /// Whether a message may be decoded: its connection has said hello, or may do so with this one.
  [[nodiscard]] bool may_decode(const Incoming& incoming);
  void hear_offer(const Incoming& incoming, const DataMessage& hello,
                  const std::vector<Outgoing>& answers);
  /// Whether a message came with a secret that is not valid for it; logs this.
  [[nodiscard]] bool is_misuse(const Incoming& incoming, const DataMessage& message);
  /// Passes a request about parts to its handler. Returns whether the message was one.
  bool take_part_request(const Incoming& incoming, DataMessage& message);
  void send(std::vector<Outgoing> messages);
  [[nodiscard]] bool may_send(const Outgoing& one, SharedLink* link);
  void note_dropped(const Error& why);
  [[nodiscard]] bool take_lent(const Incoming& incoming, JobId job, DataImages& images);
  [[nodiscard]] SharedLink* link_for(Outgoing& one);
  void note_state();
  void report_changes();
  void note_positions(TimePoint now);

  /// Written by the shard's thread alone, without a lock or a locked instruction.
  struct Load {
    std::atomic<std::uint64_t> messages_in = 0;
    std::atomic<std::uint64_t> messages_out = 0;
    std::atomic<std::uint64_t> bytes_in = 0;
    std::atomic<std::uint64_t> bytes_out = 0;
    std::atomic<std::uint64_t> busy_us = 0;
    std::atomic<std::uint64_t> dropped_updates = 0;
    std::atomic<std::uint64_t> unproven = 0;  // messages
    std::atomic<std::uint64_t> postponed_updates = 0;
    std::atomic<std::uint64_t> parked_reads = 0;
    std::atomic<std::uint64_t> held_updates = 0;
    std::atomic<std::uint64_t> held_bytes = 0;
    std::atomic<std::uint64_t> rows = 0;
    std::atomic<std::uint64_t> dropped_rows = 0;
    std::atomic<std::uint64_t> dynamic_job = 0;
    std::atomic<std::int64_t> dynamic_slack = 0;
  };

  std::unique_ptr<Endpoint> endpoint_;
  const std::string address_;
  const Options options_;
  const OnReport on_report_;
  SharedPeers shared_;
  ImageLinks images_;
  BufferPool pool_;
  Shard shard_;
  BoundedQueue<Command> commands_{1024};
  BoundedQueue<std::pair<PeerId, DataPartReply>> replies_{256};
  Load load_;
  TimePoint positions_due_;
  mutable std::mutex positions_mutex_;  // guards the next three
  std::optional<JobPositions> positions_;
  std::vector<BackupLag> lags_;
  TimePoint lags_at_;  // when lags_ was taken
  std::atomic<bool> stopping_ = false;
  std::unordered_set<PeerId> greeted_;  // connections whose hello was accepted
  std::uint64_t undecodable_ = 0;
  std::uint64_t misused_ = 0;  // messages whose secret was not valid for them
  std::uint64_t unread_ = 0;   // answers dropped because the peer does not read
  std::thread thread_;
};

}  // namespace taut::server
