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

/// How a host reaches others.
struct Dial {
  std::function<PeerId(const std::string& address)> connect;
  std::function<void(PeerId peer)> disconnect;
  /// After which images and updates that were not acknowledged are sent again; then after twice as
  /// long each time.
  Duration again{500'000};
};

/// A primary's side of replication, for one job at one host: when which slice's image goes to the
/// backups, and what each of them holds of each member's updates. An image is due when V has risen
/// `replication_interval` times since the last one, or twice as many updates of each member were
/// applied, and when a worker waits for it; slices take turns, so that each clock sends its part.
/// In a job whose readers get what backups have (JobView::shows_kept) it is due whenever they wait.
/// In a job that logs updates, each one goes to the backups before it counts; of a table by rows,
/// images are also due, and updates wait for them, by what the backups have reserved (LogRoom). All
/// backups of a shard get the same images, and the next one of a slice follows when all have this
/// one.
/// Thread    shard thread
class ImageSender {
 public:
  /// Bytes of images on their way to one backup.
  static constexpr std::uint64_t kUnderWay = 16ULL << 20U;

  /// For a new view, or slices that are new here: new backups get an image of every slice.
  void follow(const JobView& view, ShardId host, const JobSlices& slices, const Dial& dial);
  /// The job is over.
  void hang_up(const Dial& dial);
  /// Whether a slice's updates go to its backups first.
  [[nodiscard]] bool logs(std::size_t index) const;
  /// The updates of a slice that are on their way to its backups. REQUIRES: logs().
  [[nodiscard]] const UpdateLog& log_of(std::size_t index) const { return tracks_.at(index).log; }
  /// The clock that follows a worker's updates that wait for the backups; 0: none does.
  [[nodiscard]] Clock logged(std::size_t index, WorkerId worker) const;
  /// Has the backups take an update. REQUIRES: logs().
  void log(std::size_t index, UpdateLog::Push push);
  /// Whether backups are to have an image of a slice before anything more counts.
  [[nodiscard]] bool awaits_image(std::size_t index) const;
  /// Updates that may count now, those of a slice in the order in which they arrived. While an
  /// update of a slice may be the last one before its backups need an image, it is one at a time:
  /// the next call has the next one, if note_push() has not found otherwise.
  [[nodiscard]] std::vector<UpdateLog::Push> take_released();
  /// After a push to a slice, or where its V may have risen for another reason.
  void note_push(std::size_t index, const SliceState& slice);
  /// A worker waits until each backup has its updates of this slice before `clock`; it is notified
  /// then. Their image is made once all of them are in the values.
  void settle(std::size_t index, const SliceState& slice, PeerId peer, WorkerId worker,
              Clock clock);

  /// Whether other backups than before are further behind than the job allows; see problems().
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

  /// The images that are to be sent now; what has changed since the last call has changed now.
  /// tables  of the job
  [[nodiscard]] std::vector<Outgoing> take_outgoing(const std::vector<TableSpec>& tables,
                                                    const JobSlices& slices, TimePoint now);

  /// The workers that wait for what the backups have acknowledged by now.
  struct Settled {
    std::size_t index;
    PeerId peer;
    WorkerId worker;
  };
  [[nodiscard]] std::vector<Settled> take_reply(
      PeerId from, const pb::SliceImagesReply& reply,
      const std::function<std::optional<std::size_t>(TableId, SliceId)>& index_of, TimePoint now);

  /// Of a slice, the newest image that each backup has from this primary; the default: there are no
  /// backups.
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
    std::uint64_t term = 0;  // of the backups that the rest is about
    std::uint64_t copy = 0;  // 0 if there are none
    bool is_due = false;
    std::uint64_t sequence = 0;
    std::vector<ImageItem> under_way;       // the parts of an image; empty: none is
    BackupSet lacking;                      // the backups that have not acknowledged it
    BackupSet newcomers;                    // that get one first, where others have older ones
    std::optional<TimePoint> behind_since;  // of what a backup does not have yet, the oldest
    bool is_kept = false;                   // each backup has some image of it from this primary
    bool is_whole_due = false;              // the next image of a bucket continues no other
    TimePoint begun;                        // when that one was sent first
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
    LogRoom::Bucket counted;  // in it
    SliceLag lag;
    // Nothing that waits counts before the backups have an image that was made since a member left,
    // as how far aggregates hold its updates does not follow from the log alone; since a take-over;
    // or since the log has become too long.
    bool needs_image = false;
    std::uint64_t needed = 0;  // the image that it is; 0: it is still to be made
    // Of a member that was lost, what was pushed before its leave is still to be applied, and an
    // image after that names what was dropped.
    bool names_drops_later = false;
    // Of members that were lost, the clock that follows all that was logged: backups may have what
    // the log here no longer has, as it was refused since.
    std::map<WorkerId, Clock> logged_until;
  };
  struct Target {
    std::uint64_t choice = 0;
    bool was_whole = false;  // when it became a backup of this primary, or with these others
    PeerId peer;
    std::uint64_t under_way = 0;  // bytes
    bool knows_tables = false;
    std::optional<TimePoint> requested;  // of the tables, where the shard has no slice
    std::optional<TimePoint> last_heard;
    // Since when it has owed an answer to what it was sent before there were other backups.
    std::optional<TimePoint> owes_since;
  };
  /// A shard's backups.
  struct Targets {
    std::uint64_t term = 0;
    std::uint64_t copy = 0;
    std::vector<Target> list;
  };

  /// The shards with backups, with a connection to each.
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
  /// Puts a slice's image into the batches of the backups that lack it, if one is due, or is to be
  /// sent again. Returns whether it did.
  bool add(Track& track, Targets& targets, SliceState& slice, std::vector<DataImages>& batches,
           TimePoint now);
  void send(ShardId shard, std::size_t backup, DataImages batch,
            const std::vector<TableSpec>& tables, TimePoint now, std::vector<Outgoing>& out);
  /// Since when a backup has lacked what it should have of a slice; never: it lacks nothing.
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
  std::set<std::size_t> wait_for_room_;  // buckets with updates that do
  // Of those, what there may be to send for: due, under way or logged. Most messages find nothing.
  std::set<std::size_t> pending_;
  std::vector<std::size_t> changed_;  // since the last images, as their backups may have
  std::size_t next_ = 0;              // whose turn it is
};

}  // namespace taut::server
