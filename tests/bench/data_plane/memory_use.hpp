#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace taut::bench {

/// Bytes of memory that belong to a process alone: its heap, and what it has touched of shared
/// memory that it made itself; what it maps of others' is theirs. 0 when it has gone.
[[nodiscard]] std::uint64_t own_memory(int pid);

/// Watches processes' own memory on its own thread, and keeps the highest.
class MemoryWatch {
 public:
  explicit MemoryWatch(std::vector<int> pids);
  ~MemoryWatch() { (void)peaks(); }
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// Ends watching; the peaks in the order of the pids.
  [[nodiscard]] std::vector<std::uint64_t> peaks();

 private:
  const std::vector<int> pids_;
  std::vector<std::uint64_t> peaks_;  // the thread's, until it has ended
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace taut::bench
