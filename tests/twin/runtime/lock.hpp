#pragma once

#include <condition_variable>
#include <mutex>

namespace taut::twin {

/// One lock over the whole twin, which every call takes: what it simulates is one machine. Queued
/// work runs with it held.
std::recursive_mutex& runtime_mutex();
/// Work was queued, or something that work waits for has changed.
std::condition_variable_any& runtime_changed();

class Lock {
 public:
  Lock() : held_(runtime_mutex()) {}
  /// Lets other threads continue until something has changed. REQUIRES: taken once by this thread
  void wait() { runtime_changed().wait(held_); }

 private:
  std::unique_lock<std::recursive_mutex> held_;
};

}  // namespace taut::twin
