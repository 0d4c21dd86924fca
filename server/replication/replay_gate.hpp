#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/ssp/slice_clock.hpp"
#include "common/types.hpp"
#include "server/job_view.hpp"

namespace taut::server {

/// Keeps readers from a slice that was taken over until it holds again whatever its last primary
/// may have shown: each member says up to which clock it has sent updates, and repeats those that
/// the image lacks. An update whose acknowledgement was lost may have been read by others.
/// Thread    shard thread
class ReplayGate {
 public:
  /// Open.
  ReplayGate() = default;
  /// Closed until each member that still trains has been heard.
  /// awaits_backups  and until backups have an image: they may lack what the last primary has
  ///                 logged here, and no worker repeats a lost member's updates
  explicit ReplayGate(const Membership& membership, bool awaits_backups = false)
      : awaits_backups_(awaits_backups) {
    for (const Member& member : membership.members()) {
      if (!is_through(&member)) unheard_.insert(member.worker);
    }
  }

  /// What a member has sent: every clock below `until`. Only its first report counts; later ones
  /// may include what it has sent to this primary.
  void hear(WorkerId worker, Clock until) {
    if (unheard_.erase(worker) > 0) due_.emplace(worker, until);
  }
  /// A member that was lost repeats nothing. Until it is known where it leaves, V may be lower than
  /// what was seen.
  void update(const Membership& membership) {
    std::erase_if(unheard_, [&](WorkerId worker) { return is_through(membership.find(worker)); });
    std::erase_if(due_,
                  [&](const auto& entry) { return is_through(membership.find(entry.first)); });
  }
  /// Forgets what has been repeated by now.
  void pass(const SliceClock& clock) {
    std::erase_if(due_, [&](const auto& entry) { return clock.done(entry.first) >= entry.second; });
  }

  /// The backups have an image, or there are none.
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
  /// The highest clock that is due from any member; 0: none is.
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
