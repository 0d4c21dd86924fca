#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut {

/// The readers that follow one job, from their own reports, and which of them passes models on to
/// which. Not saved: they report again. Pure; no I/O.
class Followers {
 public:
  static constexpr std::size_t kMax = 4096;
  // How long a follower gets no models from one that it avoids; a machine that was briefly busy
  // need not be avoided forever.
  static constexpr Duration kAvoid = std::chrono::seconds(60);

  struct Follower {
    FollowerId id;
    std::string name;
    bool bounded = false;
    Clock version{-1};    // of the whole model that it has; below 0: none
    std::string address;  // where it passes models on; empty if it does not
    std::uint64_t received = 0;
    std::uint64_t passed = 0;  // payload bytes
    std::uint64_t order = 0;   // of arrival
    TimePoint last_heard;
    // Followers that failed to pass models on to it, and since when it avoids them.
    std::map<FollowerId, TimePoint> avoids;
  };

  /// Handles a report. Returns the follower, or nullptr if there are too many.
  const Follower* hear(const pb::Follow& report, TimePoint now);
  /// The follower with this number, or nullptr.
  [[nodiscard]] const Follower* find(FollowerId id) const {
    const auto found = followers_.find(id);
    return found == followers_.end() ? nullptr : &found->second;
  }
  /// Restores a bounded follower that was known before the coordinator restarted.
  void recover(const pb::BoundedFollower& follower, TimePoint now);
  void remove(FollowerId follower) { followers_.erase(follower); }
  /// The followers that have been silent for longer than `limit`.
  [[nodiscard]] std::vector<Follower> silent(Duration limit, TimePoint now) const;
  /// Excuses silence of length `pause`, in which the coordinator itself did not run.
  void excuse_silence(Duration pause, TimePoint now);

  /// The follower that passes models on to this one: the last one before it in the chain that does
  /// and that it does not avoid; nullptr if it reads from the servers. In a chain each follower
  /// sends a model once, and in parts, so that it reaches the last almost as soon as the first.
  [[nodiscard]] const Follower* source_of(const Follower& follower) const;

  [[nodiscard]] const std::map<FollowerId, Follower>& all() const { return followers_; }
  [[nodiscard]] bool empty() const { return followers_.empty(); }

 private:
  std::map<FollowerId, Follower> followers_;
  std::uint64_t next_ = 0;
};

}  // namespace taut
