#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/ssp/slice_clock.hpp"
#include "common/types.hpp"
#include "server/job_view.hpp"

namespace taut::server {

/// Keeps readers from a slice that was taken over until it contains every update that readers may
/// have seen at the previous primary: each member reports up to which clock it has sent updates,
/// and repeats those that the image lacks. Others may have read an update even if its
/// acknowledgement was lost.
/// Thread    shard thread
class ReplayGate {
 public:
  /// Open.
  ReplayGate() = default;
  /// Closed until each member that still trains has reported.
  /// awaits_backups  also closed until the backups have an image: they may lack what the previous
  ///                 primary logged here, and no worker repeats a lost member's updates
  explicit ReplayGate(const Membership& membership, bool awaits_backups = false)
      : awaits_backups_(awaits_backups) {
    for (const Member& member : membership.members()) {
      if (!is_through(&member)) unheard_.insert(member.worker);
    }
  }

  /// Notes that a member has sent the updates of every clock below `until`. Only its first report
  /// counts; later ones may include what it has sent to this primary.
  void hear(WorkerId worker, Clock until) {
    if (unheard_.erase(worker) > 0) due_.emplace(worker, until);
  }
  /// Stops waiting for members that have ended, and for lost ones, which repeat nothing, once their
  /// leave clock is known: until then V may be lower than what readers have seen.
  void update(const Membership& membership) {
    std::erase_if(unheard_, [&](WorkerId worker) { return is_through(membership.find(worker)); });
    std::erase_if(due_,
                  [&](const auto& entry) { return is_through(membership.find(entry.first)); });
  }
  /// Stops waiting for what has been repeated by now.
  void pass(const SliceClock& clock) {
    std::erase_if(due_, [&](const auto& entry) { return clock.done(entry.first) >= entry.second; });
  }

  /// Notes that the backups have an image, or that there are none.
  void note_backed() { awaits_backups_ = false; }
  [[nodiscard]] bool awaits_backups() const { return awaits_backups_; }

  [[nodiscard]] bool is_open() const {
    return unheard_.empty() && due_.empty() && !awaits_backups_;
  }
  /// Whether this update was sent to an earlier primary, as far as is known.
  [[nodiscard]] bool is_replay(WorkerId worker, Clock clock) const {
    const auto due = due_.find(worker);
    return due != due_.end() && clock < due->second;
  }
  /// The highest clock that is due from any member; 0 if none is.
  [[nodiscard]] Clock highest_due() const {
    Clock highest;
    for (const auto& [worker, until] : due_) highest = std::max(highest, until);
    return highest;
  }

 private:
  static bool is_through(const Member* member) {
    if (member == nullptr || member->finished) return true;
    return member->fenced && member->leave != Clock::never();
  }

  bool awaits_backups_ = false;
  std::set<WorkerId> unheard_;
  std::map<WorkerId, Clock> due_;
};

}  // namespace taut::server
