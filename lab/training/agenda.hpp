#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/time.hpp"

namespace taut::lab {

/// Pending events in virtual time. Events at the same time occur in the order in which they were
/// added.
class Agenda {
 public:
  using Action = std::function<void()>;

  void at(TimePoint time, Action action);
  /// When the next event occurs; never if there is none.
  [[nodiscard]] TimePoint next() const {
    return entries_.empty() ? TimePoint::never() : entries_.front().at;
  }
  /// Takes the next event. REQUIRES: there is one.
  [[nodiscard]] Action take();
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  struct Entry {
    TimePoint at;
    std::uint64_t order = 0;
    Action action;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  std::vector<Entry> entries_;  // a heap
  std::uint64_t order_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace taut::lab
