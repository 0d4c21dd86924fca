#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "common/bounded_queue.hpp"
#include "proto/data_message.hpp"
#include "server/parts/part_store.hpp"

namespace taut::server {

/// Answers requests about this server's parts on a dedicated thread: shards never wait for a disk.
/// Thread    any, for everything public; replies are given on the dedicated one
class PartThread {
 public:
  using Reply = std::function<void(DataPartReply)>;

  explicit PartThread(PartStore& store);
  ~PartThread();
  PartThread(const PartThread&) = delete;
  PartThread& operator=(const PartThread&) = delete;

  /// If too much waits already, the request is dropped: its sender repeats it.
  void put(DataPartRequest request, Reply reply);
  /// Ends and joins the thread; requests are dropped from then on. A second call does nothing.
  void stop();

 private:
  static constexpr std::size_t kMaxWaiting = 256;
  static constexpr std::uint64_t kMaxBytes = 128ULL << 20U;  // of payloads that wait
  void run();

  PartStore& store_;
  BoundedQueue<std::pair<DataPartRequest, Reply>> queue_{kMaxWaiting};
  std::atomic<std::uint64_t> waiting_bytes_ = 0;
  std::thread thread_;
};

}  // namespace taut::server
