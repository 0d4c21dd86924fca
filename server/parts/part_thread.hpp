#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "common/bounded_queue.hpp"
#include "common/net/endpoint.hpp"
#include "proto/data_message.hpp"
#include "server/parts/part_store.hpp"

namespace taut::server {

/// Answers requests about this server's parts on a dedicated thread: shards never wait for a disk.
/// Thread    any, for everything public; results are given on the dedicated one
class PartThread {
 public:
  /// The origin of a request.
  struct Sender {
    std::size_t shard = 0;  // through whose socket
    PeerId peer;
    auto operator<=>(const Sender&) const = default;
  };
  using Reply = std::function<void(DataPartReply)>;

  explicit PartThread(PartStore& store);
  ~PartThread();
  PartThread(const PartThread&) = delete;
  PartThread& operator=(const PartThread&) = delete;

  /// Queues a request. One that repeats a pending request, or for which there is no room, gets the
  /// answer at once that it is being worked on. If there was no room, the sender's next repetition
  /// may be queued.
  void put(const Sender& from, DataPartRequest request, const Reply& reply);
  /// Ends and joins the thread; requests are dropped from then on. A second call does nothing.
  void stop();

 private:
  static constexpr std::size_t kMaxWaiting = 256;
  static constexpr std::uint64_t kMaxBytes = 128ULL << 20U;  // of payloads that wait
  using Key = std::pair<Sender, std::uint64_t>;              // with the request's number
  struct Waiting {
    Key key;
    DataPartRequest request;
    Reply reply;
  };
  void run();
  /// Whether a request must be carried out: not if it is pending already.
  [[nodiscard]] bool admit(const Key& key);
  void forget(const Key& key);

  PartStore& store_;
  BoundedQueue<Waiting> queue_{kMaxWaiting};
  std::atomic<std::uint64_t> waiting_bytes_ = 0;
  std::mutex mutex_;
  std::set<Key> keys_;  // of the requests that wait or are carried out
  std::thread thread_;
};

}  // namespace taut::server
