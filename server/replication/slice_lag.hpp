#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "common/time.hpp"
#include "common/types.hpp"

namespace taut::server {

/// How far a backup of a shard is behind its primary.
struct BackupLag {
  JobId job;
  ShardId shard;
  std::uint64_t term = 0;
  std::uint64_t choice = 0;  // of the backup
  /// For how long the primary's values have held an update that the backup's images lack. Without
  /// an image from this primary, for how long it has been the backup or this primary has served the
  /// shard. Where updates are logged, for how long one that it has not confirmed has been on its
  /// way, once it has images. 0: it lacks nothing. Up to the time of an interval between images is
  /// normal.
  Duration time{};
  /// V, less V in the newest image that the backup has, or had before this primary took over; of
  /// the slice for which that is most. 0 where it lacks nothing that counts.
  std::int64_t clocks = 0;
};

/// Of one slice, what each backup's newest image lacks of the primary's values, and since when.
/// Thread    shard thread
class SliceLag {
 public:
  struct Held {
    Clock version;                         // V in its newest image
    bool is_kept = false;                  // it has that from this primary
    std::optional<TimePoint> lacks_since;  // nullopt if the image holds all
  };

  /// A backup that is new to this primary lacks everything from now on; no effect on one that is
  /// known.
  /// version  V in the image that it has of an earlier primary; 0: it has none
  void add(std::uint64_t choice, Clock version, TimePoint now) {
    held_.try_emplace(choice, Held{version, false, now});
  }
  /// Forgets the backups for which this holds.
  template <class Predicate>
  void remove_if(Predicate goes) {
    std::erase_if(held_, [&](const auto& entry) { return goes(entry.first); });
  }

  /// Whether a slice with so many applications of the rule holds more than its newest image, and
  /// note_change() has not said so.
  [[nodiscard]] bool is_news(std::int64_t applications) const {
    return !changed_ && applications > imaged_;
  }
  /// From now on the slice holds more than its newest image.
  void note_change(TimePoint now) {
    changed_ = now;
    for (auto& [choice, held] : held_) {
      if (!held.lacks_since) held.lacks_since = now;
    }
  }
  /// An image of all that the slice holds was made.
  void note_image(std::int64_t applications) {
    imaged_ = applications;
    changed_.reset();
  }
  /// A backup has the newest image.
  void note_kept(std::uint64_t choice, Clock version) { held_[choice] = {version, true, changed_}; }

  /// nullptr: it is not known.
  [[nodiscard]] const Held* find(std::uint64_t choice) const {
    const auto found = held_.find(choice);
    return found == held_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::uint64_t, Held> held_;  // by the backup's choice
  std::int64_t imaged_ = 0;             // applications in the newest image
  std::optional<TimePoint> changed_;    // since when the slice holds more than that
};

}  // namespace taut::server
