#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"
#include "server/checkpoints/job_capture.hpp"
#include "server/job_view.hpp"
#include "server/outbox.hpp"
#include "server/replication/log_room.hpp"
#include "server/replication/slice_lag.hpp"
#include "server/replication/update_log.hpp"

namespace taut::server {

/// How a host connects to others.
struct Dial {
  std::function<PeerId(const std::string& address)> connect;
  std::function<void(PeerId peer)> disconnect;
  /// Images and updates are sent again if not acknowledged within this time, which then doubles
  /// with each attempt.
  Duration again{500'000};
};

/// The primary's side of replication, for one job at one host: decides when each slice's image goes
/// to the backups, and tracks which of each member's updates every backup has. An image is due when
/// V has risen `replication_interval` times since the last one, when twice as many updates per
/// member were applied, or when a worker waits for it; slices take turns, so that each clock sends
/// its share. In a job whose readers get only what backups have (JobView::shows_kept) it is due
/// whenever they wait. In a job that logs updates, each one goes to the backups before it counts;
/// for a table by rows, images are also due, and updates wait for them, when the room that backups
/// have reserved runs short (LogRoom). All backups of a shard get the same images, and the next
/// image of a slice follows once all of them have this one.
/// Thread    shard thread
class ImageSender {
 public:
  /// The most bytes of images in flight to one backup.
  static constexpr std::uint64_t kMaxBytesInFlight = 16ULL << 20U;

  /// Adopts a new view, or slices that are new here: new backups get an image of every slice.
  void follow(const JobView& view, ShardId host, const JobSlices& slices, const Dial& dial);
  /// Disconnects from all backups: the job is over.
  void hang_up(const Dial& dial);
  /// Whether a slice's updates go to its backups first.
  [[nodiscard]] bool logs(std::size_t index) const;
  /// The updates of a slice that its backups do not all have yet. REQUIRES: logs().
  [[nodiscard]] const UpdateLog& log_of(std::size_t index) const { return tracks_.at(index).log; }
  /// The clock after the newest of a worker's updates that wait for the backups; 0 if none does.
  [[nodiscard]] Clock logged(std::size_t index, WorkerId worker) const;
  /// Queues an update for the backups, before it counts. REQUIRES: logs().
  void log(std::size_t index, UpdateLog::Push push);
  /// Whether the backups must have an image of a slice before anything more counts.
  [[nodiscard]] bool awaits_image(std::size_t index) const;
  /// Updates that may count now, those of a slice in order of arrival. While any update of a slice
  /// may be the last one before its backups need an image, they are released one at a time: the
  /// next call returns the next one unless note_push() has found that an image is needed.
  [[nodiscard]] std::vector<UpdateLog::Push> take_released();
  /// Must be called after a push to a slice, or when its V may have risen for another reason.
  void note_push(std::size_t index, const SliceState& slice);
  /// Records that a worker waits until every backup has its updates of this slice before `clock`;
  /// take_reply() then returns it. The image is made once all of them are in the values.
  void settle(std::size_t index, const SliceState& slice, PeerId peer, WorkerId worker,
              Clock clock);

  /// Checks which backups are further behind than the job allows. Returns whether problems()
  /// changed.
  [[nodiscard]] bool check(TimePoint now);
  struct Problem {
    ShardId shard;
    std::uint64_t term = 0;
    std::uint64_t choice = 0;  // of the backup
    std::string reason;
  };
  /// Backups that are too far behind, as of the last check().
  [[nodiscard]] const std::vector<Problem>& problems() const { return problems_; }

  /// How far each backup lags.
  [[nodiscard]] std::vector<BackupLag> lags(const JobSlices& slices, TimePoint now) const;

  /// The images that must be sent now; changes since the last call are dated `now`.
  /// tables  of the job
  [[nodiscard]] std::vector<Outgoing> take_outgoing(const std::vector<TableSpec>& tables,
                                                    const JobSlices& slices, TimePoint now);

  /// A worker that waited for updates which every backup has acknowledged by now.
  struct Settled {
    std::size_t index;
    PeerId peer;
    WorkerId worker;
  };
  [[nodiscard]] std::vector<Settled> take_reply(
      PeerId from, const pb::SliceImagesReply& reply,
      const std::function<std::optional<std::size_t>(TableId, SliceId)>& index_of, TimePoint now);

  /// The newest image of a slice that every backup has from this primary; the default value if
  /// there are no backups.
  [[nodiscard]] KeptImage kept(std::size_t index) const;

  /// The first clock of a member whose update would be lost with this primary.
  [[nodiscard]] Clock stable(std::size_t index, WorkerId worker, const SliceState& slice) const;

 private:
  struct Waiting {
    PeerId peer;
    Clock clock;
    bool is_applied = false;  // its image is due, or has been made
  };
  static constexpr KeptImage kNone{Clock(-1), -1};
  struct Track {
    ShardId shard;
    std::uint64_t term = 0;  // of the backups that the rest describes
    std::uint64_t copy = 0;  // 0 if there are none
    bool is_due = false;
    std::uint64_t sequence = 0;
    std::vector<ImageItem> under_way;       // the parts of the image in flight; empty if none is
    BackupSet lacking;                      // the backups that have not acknowledged it
    BackupSet newcomers;                    // that get one first, if others have older ones
    std::optional<TimePoint> behind_since;  // since when a backup has lacked something
    bool is_kept = false;                   // each backup has some image of it from this primary
    bool is_whole_due = false;              // the next image of a bucket continues no other
    TimePoint begun;                        // when the one in flight was first sent
    TimePoint sent;
    int attempts = 0;
    // V in the newest image, and in the newest one that each backup has.
    Clock version;
    Clock kept_version;
    std::int64_t applications = 0;
    std::int64_t kept_applications = 0;
    KeptImage shown = kNone;           // the newest that each backup has from this primary
    std::map<WorkerId, Clock> stable;  // what may be reported to the workers
    std::map<WorkerId, Waiting> waiting;
    UpdateLog log;
    LogRoom* room = nullptr;  // of a bucket whose updates are logged
    LogRoom::Bucket counted;  // in `room`
    SliceLag lag;
    // No waiting update counts before the backups have an image made since a member left (the log
    // alone does not show which of its updates are in aggregates), since a take-over, or since the
    // log became too long.
    bool needs_image = false;
    std::uint64_t needed = 0;  // that image's sequence number; 0 until it is made
    // A lost member's updates from before its leave are not all applied yet; an image made after
    // that shows which ones were dropped.
    bool names_drops_later = false;
    // For each lost member, the clock after its last logged update: backups may have updates that
    // are no longer in the log here because they were refused since.
    std::map<WorkerId, Clock> logged_until;
  };
  struct Target {
    std::uint64_t choice = 0;
    bool was_whole = false;  // when this primary, or this set of backups, began
    PeerId peer;
    std::uint64_t under_way = 0;  // bytes
    bool knows_tables = false;
    std::optional<TimePoint> requested;  // last message to it; paces those with tables alone
    std::optional<TimePoint> last_heard;
    // Since when it has owed an answer to what it was sent before the set of backups changed.
    std::optional<TimePoint> owes_since;
  };
  /// A shard's backups.
  struct Targets {
    std::uint64_t term = 0;
    std::uint64_t copy = 0;
    std::vector<Target> list;
  };

  /// Updates the shards that have backups, and connects to each backup.
  void follow_targets(const JobView& view, ShardId host, const Dial& dial);
  [[nodiscard]] Targets make_targets(const ShardPlace& place, const Dial& dial);
  [[nodiscard]] std::optional<TimePoint> owed_since(ShardId shard, std::uint64_t choice) const;
  void follow_slice(std::size_t index, const SliceState& slice, const Membership& membership);
  [[nodiscard]] static BackupSet newcomers_of(const Targets& targets);
  [[nodiscard]] bool is_log_long(const Track& track, const SliceState& slice) const;
  void begin_log(Track& track, const SliceState& slice, const Targets* targets, bool is_first);
  void follow_leaves(const Membership& membership);
  [[nodiscard]] static bool owes_before(const SliceState& slice, Clock leave, Clock done);
  void name_drops(std::size_t index, Track& track, const SliceState& slice);
  void note_changes(const JobSlices& slices, TimePoint now);
  void release(std::vector<UpdateLog::Push> pushes);
  void release_kept(std::size_t index, Track& track);
  [[nodiscard]] std::vector<UpdateLog::Push> take_next(
      std::size_t index, Track& track, std::size_t most = std::numeric_limits<std::size_t>::max());
  void follow_log_room(const JobSlices& slices);
  void ask_for_image(std::size_t index, Track& track);
  void make_room(const std::set<const LogRoom*>& full);
  void take_kept(std::size_t index, Track& track, Targets& targets, std::size_t backup,
                 std::uint64_t sequence, std::vector<Settled>& settled);
  void note_kept(std::size_t index, Track& track, std::vector<Settled>& settled);
  void note_stable(std::size_t index, Track& track, std::vector<Settled>& settled);
  [[nodiscard]] static bool note_applied(Track& track, const SliceState& slice);
  void rest_if_done(std::size_t index, const Track& track);
  [[nodiscard]] bool is_sendable(const Track& track, const Targets& targets, TimePoint now) const;
  std::vector<ImageItem> make_image(SliceState& slice, Track& track) const;
  /// Puts a slice's image into the batches of the backups that lack it, if one is due or must be
  /// sent again. Returns whether it did.
  bool add(Track& track, Targets& targets, SliceState& slice, std::vector<DataImages>& batches,
           TimePoint now);
  void send(ShardId shard, std::size_t backup, DataImages batch,
            const std::vector<TableSpec>& tables, TimePoint now, std::vector<Outgoing>& out);
  /// Since when a backup has lacked what it should have of a slice; never() if it lacks nothing.
  [[nodiscard]] static TimePoint lacks_since(const Track& track, const Targets& targets,
                                             std::size_t backup);

  JobId job_;
  Duration again_ = Dial().again;
  std::uint32_t interval_ = 0;
  bool logs_updates_ = false;
  bool shows_kept_ = false;           // JobView::shows_kept()
  std::map<WorkerId, Clock> leaves_;  // of the members that were lost
  std::size_t members_ = 1;           // that are not fenced
  Duration limit_ = Duration::max();  // that a backup may be behind
  TimePoint next_check_;
  std::vector<Problem> problems_;
  std::map<ShardId, Targets> targets_;                           // shards with backups
  std::map<std::string, PeerId> peers_;                          // by address
  std::map<std::size_t, Track> tracks_;                          // by SliceLayout::index_of
  std::map<std::pair<ShardId, TableId>, LogRoom> row_log_room_;  // of the tables by rows
  std::vector<UpdateLog::Push> released_;
  std::set<std::size_t> one_by_one_;     // slices whose updates are released one at a time
  std::set<std::size_t> wait_for_room_;  // buckets with updates that wait for room
  // Slices that may have something to send: due, in flight or logged. Most messages find none.
  std::set<std::size_t> pending_;
  std::vector<std::size_t> changed_;  // slices that, or whose backups, may have changed
  std::size_t next_ = 0;              // the slice whose turn it is
};

}  // namespace taut::server
