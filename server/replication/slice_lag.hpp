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
  /// How long the primary's values have contained an update that the backup's images lack. Without
  /// an image from this primary: how long it has been the backup, or this primary has served the
  /// shard. If updates are logged, once it has images: how long one that it has not confirmed has
  /// been in flight. 0 if it lacks nothing. Up to the time between two images is normal.
  Duration time{};
  /// V minus the V in the newest image that the backup has, or had before this primary took over;
  /// the maximum over all slices. 0 if it lacks nothing that counts.
  std::int64_t clocks = 0;
};

/// For one slice, whether each backup's newest image lacks something, and since when.
/// Thread    shard thread
class SliceLag {
 public:
  struct Held {
    Clock version;                         // V in its newest image
    bool is_kept = false;                  // the image is from this primary
    std::optional<TimePoint> lacks_since;  // nullopt if the image has everything
  };

  /// Adds a backup that is new to this primary: it lacks everything from now on. No effect if it is
  /// known.
  /// version  V in the image that it has from an earlier primary; 0 if it has none
  void add(std::uint64_t choice, Clock version, TimePoint now) {
    held_.try_emplace(choice, Held{version, false, now});
  }
  /// Forgets the backups for whose choice `goes` is true.
  template <class Predicate>
  void remove_if(Predicate goes) {
    std::erase_if(held_, [&](const auto& entry) { return goes(entry.first); });
  }

  /// Whether a slice with this number of applications has more than its newest image, and
  /// note_change() was not called yet.
  [[nodiscard]] bool is_news(std::int64_t applications) const {
    return !changed_ && applications > imaged_;
  }
  /// Notes that the slice has more than its newest image from now on.
  void note_change(TimePoint now) {
    changed_ = now;
    for (auto& [choice, held] : held_) {
      if (!held.lacks_since) held.lacks_since = now;
    }
  }
  /// Notes that an image of everything in the slice was made.
  void note_image(std::int64_t applications) {
    imaged_ = applications;
    changed_.reset();
  }
  /// Notes that a backup has the newest image.
  void note_kept(std::uint64_t choice, Clock version) { held_[choice] = {version, true, changed_}; }

  /// nullptr if it is not known.
  [[nodiscard]] const Held* find(std::uint64_t choice) const {
    const auto found = held_.find(choice);
    return found == held_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::uint64_t, Held> held_;  // by the backup's choice
  std::int64_t imaged_ = 0;             // applications in the newest image
  std::optional<TimePoint> changed_;    // since when the slice has more than that
};

}  // namespace taut::server
