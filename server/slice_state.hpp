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
#include "server/job_view.hpp"
#include "server/slice_capture.hpp"

namespace taut::server {

/// Who reads a slice, and at which clock.
struct Reader {
  PeerId peer;
  WorkerId worker;
  Clock clock;
};

/// A read that may be answered now.
struct Answer {
  Reader reader;
  Clock version;
  Clock done;
  Frame values;  // [count] float32; shared by every reader until the slice is written again
};

/// One slice of a table at its shard: values, clocks, updates that wait to be applied and reads
/// that wait to become true. The consistency contract, for one slice.
///
/// Under a policy that looks at what a worker read, the newest answer to each worker is remembered:
/// for delay compensation its values too, which costs up to one more slice of memory a member, and
/// one for the adaptive form's mean square.
/// Thread    shard thread
class SliceState {
 public:
  /// begin   what a checkpoint holds of the slice; null: it is filled with its initial values
  /// images  where the memory of what the rule keeps comes from, which no reader gets; null: from `pool`
  /// Throws std::bad_alloc.
  SliceState(const TableSpec& table, const Slice& slice, const JobView& job, BufferPool& pool,
             const SliceImage* begin = nullptr, BufferPool* images = nullptr);

  /// Where its first values may be written by others, before anything is pushed or read.
  [[nodiscard]] std::span<float> initial_values() { return values_.floats(); }

  /// Judges a push and, where it is the one expected, accepts it, applies what is complete now, and
  /// releases the reads that it makes true.
  /// gradient  [count] float32 at any alignment; kept until it is applied
  /// scale     math::update_scale() of the norm that came with it
  /// REQUIRES: the worker is a member of the job's view.
  PushVerdict push(WorkerId worker, Clock clock, const Frame& gradient, float scale,
                   const JobView& job, std::vector<Answer>& released);

  /// Updates that came when their clock was over, and were dropped: backup workers.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

  /// Answers a read, or parks it; a worker's newer read takes the place of its older one.
  [[nodiscard]] std::optional<Answer> read(const Reader& reader, const JobView& job) {
    return read(reader, job, job.slack);
  }
  /// The same under a slack of its own.
  [[nodiscard]] std::optional<Answer> read(const Reader& reader, const JobView& job, Slack under);

  /// The newest values, for readers that are not members.
  [[nodiscard]] Answer snapshot(PeerId peer) const;

  /// Takes over a changed view of the job: members that left are forgotten from their leave clock
  /// on, and reads that are true now are released.
  void update(const JobView& job, std::vector<Answer>& released);

  /// What the job's newest checkpoint order asks of this slice.
  enum class Capture : std::uint8_t {
    kNone,    // nothing, or it was taken
    kDue,     // V has not reached the order's clock
    kReady,   // the image waits to be taken
    kMissed,  // V had passed the clock when the order came, or there was no memory
  };
  [[nodiscard]] Capture capture() const { return capture_; }
  /// Shares its memory with the slice, which writes elsewhere for as long as the image is there.
  /// REQUIRES: kReady.
  [[nodiscard]] SliceImage take_image();

  [[nodiscard]] const Slice& place() const { return place_; }
  /// False where nobody ever updates it.
  [[nodiscard]] bool is_written() const { return kind_ != TableKind::kFrozen; }
  /// How many numbers are kept beside each value.
  [[nodiscard]] std::size_t states() const { return rule_state_.size() + (mean_square_ ? 1 : 0); }
  [[nodiscard]] float decay_mult() const { return decay_mult_; }
  [[nodiscard]] Clock done(WorkerId worker) const { return clock_.done(worker); }
  [[nodiscard]] Clock version() const { return clock_.version(); }
  [[nodiscard]] std::size_t parked() const { return parked_.size(); }
  /// Updates that were accepted and are not applied: in BSP they wait for the others of their clock.
  [[nodiscard]] std::size_t held() const { return held_.size(); }

 private:
  struct Held {
    Frame gradient;
    float scale = 1;
  };
  struct Parked {
    Reader reader;
    Slack slack;  // the largest that held since it was parked
  };

  /// What a worker's values were when its newest read was answered.
  struct ReadBase {
    Clock clock;
    std::int64_t applications = 0;
    Buffer values;  // shared with the answer; held for delay compensation alone
  };

  [[nodiscard]] std::vector<Buffer> kept_states() const;
  [[nodiscard]] Buffer where_to_write();
  Buffer& make_own(Buffer& state, std::size_t index);
  void begin_from(const SliceImage& image);
  void take_order(const JobView& job);
  void capture_if_due(const JobView& job);
  void apply_ready(const JobView& job);
  void apply(const Application& application, const JobView& job);
  void release(std::vector<Answer>& released);
  [[nodiscard]] Answer answer(const Reader& reader);
  [[nodiscard]] math::GradientView weigh(WorkerId worker, const JobView& job, std::size_t members,
                                         math::GradientView gradient, Buffer& corrected);

  const Slice place_;
  const TableKind kind_;
  const float lr_mult_;
  const float decay_mult_;
  BufferPool& pool_;
  BufferPool& images_;
  const std::unique_ptr<const AggregationPolicy> policy_;
  const bool keeps_reads_;
  const bool keeps_values_;
  SliceClock clock_;
  Buffer values_;
  std::vector<Buffer> rule_state_;
  std::int64_t applications_ = 0;
  HeldUpdates waiting_;
  std::map<std::pair<Clock, WorkerId>, Held> held_;
  std::map<WorkerId, Parked> parked_;
  std::map<WorkerId, ReadBase> bases_;
  Buffer mean_square_;  // of gradients, for adaptive delay compensation
  std::uint64_t dropped_ = 0;
  std::map<WorkerId, Clock> applied_;  // of each member, the next clock that is not in the values
  Capture capture_ = Capture::kNone;
  std::uint64_t order_ = 0;  // the newest that was heard of
  SliceImage image_;
  // For the next update, which may not write over what a checkpoint holds.
  Buffer spare_values_;
  std::vector<Buffer> spare_states_;
};

}  // namespace taut::server
