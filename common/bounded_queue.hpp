#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/time.hpp"

namespace taut {

/// A queue of limited length between threads. Once it is closed, remaining items can be popped.
/// Thread: any number of producers and consumers.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t limit) : limit_(limit) {}

  /// Waits up to `wait` for space. False: no space in time, or closed; `item` is then unchanged.
  [[nodiscard]] bool push(T&& item, Duration wait) {
    std::unique_lock lock(mutex_);
    if (!room_.wait_for(lock, wait, [&] { return closed_ || items_.size() < limit_; })) {
      return false;
    }
    if (closed_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }

  /// Waits up to `wait` for an item. nullopt: no item in time, or closed and drained.
  [[nodiscard]] std::optional<T> pop(Duration wait) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, wait, [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    room_.notify_one();
    return item;
  }

  /// Refuses further pushes and wakes every waiter.
  void close() {
    std::scoped_lock lock(mutex_);
    closed_ = true;
    filled_.notify_all();
    room_.notify_all();
  }

  [[nodiscard]] bool closed() const {
    std::scoped_lock lock(mutex_);
    return closed_;
  }
  [[nodiscard]] std::size_t size() const {
    std::scoped_lock lock(mutex_);
    return items_.size();
  }

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable room_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace taut
