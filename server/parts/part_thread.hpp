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
  /// Where a request comes from.
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

  /// A repeated request that still waits, or one for which there is no room, is answered at once:
  /// it is being worked at. If there was no room its sender's repetition is taken later.
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
  /// Whether a request is to be carried out: not if it waits already.
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
