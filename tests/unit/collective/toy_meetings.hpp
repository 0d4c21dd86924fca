#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "common/types.hpp"

namespace taut::test {

inline constexpr std::int64_t kClocks = 60;
inline constexpr std::int64_t kInterval = 7;  // clocks between two meetings
inline constexpr std::int64_t kLead = 3;  // clocks between a new worker's arrival and its first one
inline const std::vector<std::size_t> kTables = {3, 700, 40};

inline bool meets(Clock clock) {
  return (clock.value() + 1) % kInterval == 0 || clock.value() + 1 == kClocks;
}

/// The servers' part of meetings: one is over when every member has pushed.
class ToyMeetings {
 public:
  /// A member from this clock on, or from a later one where some have pushed. Returns which.
  Clock enter(std::uint32_t worker, Clock first) {
    const std::scoped_lock lock(mutex_);
    if (!pushed_.empty()) first = std::max(first, pushed_.rbegin()->first.next());
    if (first < Clock(kClocks)) members_[worker] = first;
    return first;
  }
  void leave(std::uint32_t worker) {
    const std::scoped_lock lock(mutex_);
    members_.erase(worker);
  }
  void push(std::uint32_t worker, Clock clock, const std::vector<std::vector<float>>& arrays) {
    const std::scoped_lock lock(mutex_);
    if (pushed_[clock].insert(worker).second) models_[clock][worker] = arrays;
    if (!results_.emplace(clock, arrays).second) return;
    for (std::size_t array = 0; array < arrays.size(); array += 2) {
      for (float& value : results_[clock][array]) value *= 0.999F;
    }
  }
  /// What all have after a meeting: a little different from what they had.
  std::vector<std::vector<float>> result(Clock clock) {
    const std::scoped_lock lock(mutex_);
    return results_.at(clock);
  }
  /// Of models that differ: their mean, summed in the workers' order. REQUIRES: is_over().
  std::vector<std::vector<float>> mean(Clock clock) {
    const std::scoped_lock lock(mutex_);
    std::vector<std::vector<float>> sum;
    for (const auto& [worker, arrays] : models_.at(clock)) {
      sum.resize(arrays.size());
      for (std::size_t array = 0; array < arrays.size(); array += 2) {
        sum[array].resize(arrays[array].size());
        for (std::size_t i = 0; i < sum[array].size(); ++i) sum[array][i] += arrays[array][i];
      }
    }
    const auto members = static_cast<float>(models_.at(clock).size());
    for (auto& array : sum) {
      for (float& value : array) value /= members;
    }
    return sum;
  }
  bool is_over(Clock clock) {
    const std::scoped_lock lock(mutex_);
    return std::ranges::all_of(members_, [&](const auto& member) {
      return member.second > clock || pushed_.at(clock).contains(member.first);
    });
  }

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, Clock> members_;
  std::map<Clock, std::set<std::uint32_t>> pushed_;
  std::map<Clock, std::vector<std::vector<float>>> results_;
  std::map<Clock, std::map<std::uint32_t, std::vector<std::vector<float>>>> models_;
};

}  // namespace taut::test
