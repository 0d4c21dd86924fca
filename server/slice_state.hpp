#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "common/net/endpoint.hpp"
#include "common/net/message.hpp"
#include "common/ssp/aggregation.hpp"
#include "common/ssp/slice_clock.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/ssp/table.hpp"
#include "proto/pushed_update.hpp"
#include "server/checkpoints/slice_capture.hpp"
#include "server/job_view.hpp"
#include "server/parked_follows.hpp"
#include "server/parked_reads.hpp"
#include "server/pulled_values.hpp"
#include "server/replication/replay_gate.hpp"
#include "server/replication/slice_image.hpp"
#include "server/tables/row_allowance.hpp"
#include "server/tables/row_store.hpp"
#include "server/tables/slice_memory.hpp"

namespace taut::server {

/// A read that may be answered now.
struct Answer {
  Reader reader;
  Clock version;
  Clock done;    // of the reader; for a follower, the last version of the values
  Frame values;  // [count] encoded as below; shared by readers until the slice is written again;
                 // for a bucket, those of the rows that are read
  bool follows = false;       // for a follower; without values if V has passed its version
  math::Encoding encoding{};  // of the values: the job's for members, float32 for all others
};

/// One slice of a table at its shard, or one bucket of a table that is kept by rows: values,
/// clocks, updates that wait to be applied, and reads that wait to be answered. Implements the
/// consistency contract for one slice.
///
/// Under a policy that looks at what a worker read, the newest answer to each worker is remembered
/// (StalenessPolicy::Keeps).
/// Thread    shard thread
class SliceState {
 public:
  /// schedule  when members push it
  /// begin   contents from a checkpoint or a backup; nullptr for initial values
  /// states  the pool for the rule's state, which no reader gets; nullptr: `pool`
  /// allowance  counts what waits in a bucket; nullptr: it is not counted
  /// Throws std::bad_alloc.
  SliceState(const TableSpec& table, const Slice& slice, const JobView& job, BufferPool& pool,
             const PushSchedule& schedule, const SliceImage* begin = nullptr,
             BufferPool* states = nullptr, std::shared_ptr<RowAllowance> allowance = nullptr);

  /// The values, for a caller to write the initial ones before anything is pushed or read.
  [[nodiscard]] std::span<float> initial_values() { return memory_.initial_values(); }

  /// Judges a push and, if it is the expected one, accepts it, applies what is complete now, and
  /// releases the reads that can then be answered.
  /// update  [count]; kept until it is applied
  /// REQUIRES: the worker is a member of the job's view.
  PushVerdict push(WorkerId worker, const Update& update, const JobView& job,
                   std::vector<Answer>& released);

  /// The verdict that push() would give on an update at `clock`. REQUIRES: as push().
  [[nodiscard]] PushVerdict judge(WorkerId worker, Clock clock) const {
    return clock_.judge(worker, clock);
  }
  /// The clock that a member pushes after `clock`.
  [[nodiscard]] Clock next_after(Clock clock) const { return clock_.next_after(clock); }

  /// Updates that were dropped because they arrived after their clock was over (backup workers).
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  /// If the job refuses updates that are not finite: for each member, at how many clocks its update
  /// was ignored for that, since this process has had the slice.
  [[nodiscard]] const std::map<WorkerId, std::uint64_t>& bad_updates() const {
    return bad_updates_;
  }

  /// Whether a member that was lost before this slice was taken over leaves at a different clock
  /// here than elsewhere.
  [[nodiscard]] bool leaves_here(WorkerId worker) const { return leaves_here_.contains(worker); }

  /// Answers a read, or parks it; a worker's newer read replaces its older one.
  [[nodiscard]] std::optional<Answer> read(const Reader& reader, const JobView& job) {
    return read(reader, job, job.slack);
  }
  /// Overload for a read with a slack other than the job's.
  [[nodiscard]] std::optional<Answer> read(const Reader& reader, const JobView& job, Slack under);

  /// The newest values, for readers that are not members.
  [[nodiscard]] Answer snapshot(PeerId peer) const;
  /// Overload for rows of a bucket; the answer has the reader's clock.
  [[nodiscard]] Answer snapshot(const Reader& reader);

  /// The values at one version, for a reader that is not a member: returned now, or released when V
  /// reaches it. No update is held back for it.
  [[nodiscard]] std::optional<Answer> follow(PeerId peer, Clock version);

  /// From now on answers no read at a clock after `last`: bounded followers have not confirmed what
  /// it needs. Reads that a higher limit allows are released by the next update().
  void limit_reads(Clock last) { last_read_ = last; }
  /// As limit_reads(), for a higher limit that followers have confirmed; releases the reads that it
  /// allows.
  void allow_reads(Clock last, std::vector<Answer>& released) {
    limit_reads(last);
    release(released);
  }

  /// Adopts a changed view of the job: forgets members that left from their leave clock on, and
  /// releases the reads that can be answered now.
  void update(const JobView& job, std::vector<Answer>& released);

  /// The current state, for a backup; `done` excludes updates that are held. Shares its memory as
  /// take_image() does. Throws std::bad_alloc.
  [[nodiscard]] SliceImage image();
  /// The first clock of a member whose update is neither in the values nor dropped.
  [[nodiscard]] Clock settled(WorkerId worker) const;
  /// settled() of every member.
  [[nodiscard]] std::map<WorkerId, Clock> settled_members() const;
  [[nodiscard]] std::int64_t applications() const { return applications_; }

  /// Notes that a member has sent updates below `until` to earlier primaries; releases reads.
  void hear_replays(WorkerId worker, Clock until, std::vector<Answer>& released);
  /// Notes that the backups have an image of the slice, or that there are none; releases reads.
  void note_backed(std::vector<Answer>& released);
  /// Limits reads to the version that every backup has, and releases reads. If a buffer waited for
  /// that, it then makes its next steps.
  void note_kept(const KeptImage& kept, const JobView& job, std::vector<Answer>& released);
  /// Whether its values are newer than that version. With a buffer only applications are compared:
  /// V rises without a change of the values, and is the same again once members have repeated their
  /// pushes.
  [[nodiscard]] bool is_hidden() const {
    const bool is_newer = counts_some_ && clock_.version() > kept_.version;
    return is_newer || applications_ > kept_.applications;
  }
  /// Applies what a buffer holds, however little it is; releases reads.
  void end_wait(const JobView& job, std::vector<Answer>& released);
  /// Whether it answers no reads yet, because it lacks what its previous primary had.
  [[nodiscard]] bool is_settling() const { return !gate_.is_open(); }
  [[nodiscard]] const ReplayGate& gate() const { return gate_; }

  /// The state of the job's newest checkpoint order for this slice.
  [[nodiscard]] SliceCapture::State capture() const { return capture_.state(); }
  /// The image shares its memory with the slice, which writes elsewhere while the image exists.
  /// REQUIRES: kReady.
  [[nodiscard]] SliceImage take_image() { return capture_.take_image(); }
  /// Has updates rejected while `lease` exists, as there is no memory to copy what an image shares.
  void wait_for_end_of(const std::shared_ptr<const void>& lease) { awaited_ = lease; }
  [[nodiscard]] bool waits_for_image() const { return !awaited_.expired(); }

  [[nodiscard]] const Slice& place() const { return place_; }
  /// False if no update ever changes it.
  [[nodiscard]] bool is_written() const { return kind_ != TableKind::kFrozen; }
  /// How many state values are kept with each value.
  [[nodiscard]] std::size_t states() const {
    return rows_ ? rows_->states() : memory_.states().size();
  }
  /// The rows of a bucket; nullptr if the table is not kept by rows.
  [[nodiscard]] const RowStore* rows() const { return rows_.get(); }
  /// The allowance of a bucket, as given to the constructor.
  [[nodiscard]] const RowAllowance* allowance() const { return allowance_.get(); }
  /// Counts an update that waits elsewhere against the allowance while the result exists; nullptr
  /// without an allowance.
  [[nodiscard]] std::shared_ptr<const void> take_room(WorkerId worker, const Update& update) const;
  /// RowStore::take_changes() of a bucket.
  [[nodiscard]] RowChanges take_row_changes(bool whole) { return rows_->take_changes(whole); }
  [[nodiscard]] float decay_mult() const { return decay_mult_; }
  [[nodiscard]] Clock done(WorkerId worker) const { return clock_.done(worker); }
  [[nodiscard]] Clock version() const { return clock_.version(); }
  /// As SliceClock::complete_until(): no update of a clock before it is missing.
  [[nodiscard]] Clock complete_until() const { return clock_.complete_until(); }
  [[nodiscard]] WorkerId holds_back(WorkerId reader, Clock clock) const {
    return clock_.holds_back(reader, clock);
  }
  /// The clock that a member computes or, if it waits for the values of the next one, has pushed.
  /// It is never more than the slack ahead of V or, if members push at the ends of intervals, ahead
  /// of the end of V's interval.
  struct Position {
    Clock clock;
    bool waits = false;
  };
  [[nodiscard]] Position position(WorkerId worker, Slack slack) const;
  [[nodiscard]] std::size_t parked() const { return parked_.size(); }
  /// Updates that are accepted but not applied: under BSP they wait for the others of their clock,
  /// in a buffer until there are enough for a step.
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  /// The bytes of these updates.
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] std::vector<LoggedUpdate> held_updates() const;

 private:
  /// The values that a worker got when its newest read was answered.
  struct ReadBase {
    Clock clock;
    std::int64_t applications = 0;
    Buffer values;  // shared with the answer; empty unless a policy keeps values
  };

  void start_from(const SliceImage& image, const JobView& job);
  void take_over(const SliceImage& image, const JobView& job);
  /// The job's membership as this slice sees it.
  [[nodiscard]] const Membership& members_of(const JobView& job) const {
    return leaves_here_.empty() ? job.membership : membership_;
  }
  [[nodiscard]] SliceImage make_image();
  void capture_if_due(const JobView& job);
  void note_members(const JobView& job);
  [[nodiscard]] Patience patience(const JobView& job) const;
  void hold(WorkerId worker, const Update& update);
  [[nodiscard]] Update take_held(const HeldUpdate& of);
  void park(const Reader& reader, Slack slack);
  void apply_ready(const JobView& job);
  /// Updates that are applied together.
  struct Counted {
    std::vector<Update> updates;
    std::vector<math::GradientView> gradients;  // of the updates
    std::vector<float> scales;                  // of each, before a policy weighs it
    double weight = 0;                          // of all
    Buffer corrected;                           // a policy's, of a single one
  };
  [[nodiscard]] Counted take(const Application& application, const JobView& job);
  void apply(const Application& application, const JobView& job);
  [[nodiscard]] static double weight_of(const Counted& counted, std::size_t members);
  void average(Counted& counted, std::size_t members);
  void step(const Counted& counted, Clock clock, std::size_t members, const JobView& job);
  [[nodiscard]] Clock job_clock(Clock newest) const;
  void seed(const math::GradientView& values);
  [[nodiscard]] bool is_refused(WorkerId worker, const Update& update, const JobView& job);
  [[nodiscard]] bool may_answer() const { return gate_.is_open() && !is_hidden(); }
  /// pushed  as ParkedReads::take_true()
  void release(std::vector<Answer>& released, std::optional<WorkerId> pushed = std::nullopt);
  [[nodiscard]] Answer answer_follower(PeerId peer, Clock version) const;
  [[nodiscard]] Answer answer(const Reader& reader);
  [[nodiscard]] Frame values_of(const Frame& rows);
  [[nodiscard]] math::GradientView weigh(const HeldUpdate& update, const JobView& job,
                                         std::size_t together, math::GradientView gradient,
                                         Buffer& corrected);

  const Slice place_;
  const TableKind kind_;
  const float lr_mult_;
  const float decay_mult_;
  const std::unique_ptr<const AggregationPolicy> policy_;
  const Policies::Keeps keeps_;
  const bool counts_some_;         // of a clock's updates (backup workers)
  const std::size_t rule_states_;  // how many leading states are the rule's
  BufferPool& pool_;
  SliceMemory memory_;                    // of a slice
  const std::unique_ptr<RowStore> rows_;  // of a bucket, in place of memory_
  PulledValues pulled_;
  SliceClock clock_;
  std::int64_t applications_ = 0;
  HeldUpdates waiting_;
  std::map<HeldUpdate, Update> held_;
  const std::shared_ptr<RowAllowance> allowance_;
  std::map<HeldUpdate, RowAllowance::Share> shares_;  // of held_, in a bucket
  std::uint64_t held_bytes_ = 0;
  ParkedReads parked_;
  ParkedFollows follows_;
  Clock last_read_ = Clock::never();  // at which reads are answered, as followers allow
  KeptImage kept_;                    // what readers may get
  std::map<WorkerId, ReadBase> bases_;
  std::uint64_t dropped_ = 0;
  std::map<WorkerId, std::uint64_t> bad_updates_;
  std::map<WorkerId, Clock> applied_;  // of each member, the next clock that is not in the values
  SliceCapture capture_;
  std::weak_ptr<const void> awaited_;
  ReplayGate gate_;
  // Members that were lost before this slice was taken over: they leave earlier here than elsewhere
  // if their last updates were lost with the previous primary, or later if these were logged for
  // it.
  std::map<WorkerId, Clock> leaves_here_;
  Membership membership_;  // with leaves_here_; unused while that is empty
};

}  // namespace taut::server
