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

/// The readers that follow one job, as they report themselves, and which of them passes models on
/// to which. Not saved: they report again. Pure; no I/O.
class Followers {
 public:
  static constexpr std::size_t kMax = 4096;
  // How long a follower is given no models by one that it avoids; a machine that was busy for a
  // moment need not be avoided for good.
  static constexpr Duration kAvoid = std::chrono::seconds(60);

  struct Follower {
    FollowerId id;
    std::string name;
    bool bounded = false;
    Clock version{-1};    // of the whole model that it has; below 0: none
    std::string address;  // where it passes models on; empty: it does not
    std::uint64_t received = 0;
    std::uint64_t passed = 0;  // payload bytes
    std::uint64_t order = 0;   // in which they came
    TimePoint last_heard;
    // Those that did not pass models on to it as they should, since when.
    std::map<FollowerId, TimePoint> avoids;
  };

  /// Takes a report. Returns nullptr if there are too many, otherwise the follower.
  const Follower* hear(const pb::Follow& report, TimePoint now);
  /// The one with this number, or nullptr.
  [[nodiscard]] const Follower* find(FollowerId id) const {
    const auto found = followers_.find(id);
    return found == followers_.end() ? nullptr : &found->second;
  }
  /// One that was known before the coordinator restarted.
  void recover(const pb::BoundedFollower& follower, TimePoint now);
  void remove(FollowerId follower) { followers_.erase(follower); }
  /// Those that were silent for longer than `limit`.
  [[nodiscard]] std::vector<Follower> silent(Duration limit, TimePoint now) const;
  /// Excuses silence of this length, because the coordinator itself did not run.
  void excuse_silence(Duration pause, TimePoint now);

  /// Which follower passes models on to this one: in a chain, the last before it that does, and
  /// that it does not avoid; nullptr: it reads from the servers. In a chain each sends a model
  /// once, and in parts, so that a new one reaches the last nearly as soon as the first.
  [[nodiscard]] const Follower* source_of(const Follower& follower) const;

  [[nodiscard]] const std::map<FollowerId, Follower>& all() const { return followers_; }
  [[nodiscard]] bool empty() const { return followers_.empty(); }

 private:
  std::map<FollowerId, Follower> followers_;
  std::uint64_t next_ = 0;
};

}  // namespace taut
