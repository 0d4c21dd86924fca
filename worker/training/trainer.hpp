#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/recent_rate.hpp"
#include "common/result.hpp"
#include "common/types.hpp"
#include "proto/config/job_words.hpp"
#include "proto/solver.pb.h"
#include "worker/cache/parameter_cache.hpp"
#include "worker/engine/backend.hpp"
#include "worker/evaluation/test_phases.hpp"
#include "worker/pace.hpp"
#include "worker/progress.hpp"
#include "worker/records/recorder.hpp"
#include "worker/replica.hpp"
#include "worker/training/batch_feed.hpp"
#include "worker/training/divergence.hpp"

namespace taut::worker {

/// The wait that an experiment adds to a clock, given the time of its compute.
using Straggle = std::function<Duration(Clock, Duration compute)>;

/// The training loop, with and without a server behind the cache. A device with its own memory
/// computes while the host continues: a clock's batch is copied while the previous clock is
/// computed, and its loss is read when the device has written it. How far the host is ahead is
/// limited by the arrival of parameters, and without a server by BatchFeed.
/// Thread    the compute thread
class Trainer {
 public:
  /// The maximum number of clocks with unread losses: more than BatchFeed lets the host be ahead.
  static constexpr std::size_t kMaxUnread = 8;

  /// When a clock's arithmetic happens.
  enum class Arithmetic : std::uint8_t {
    kLayerByLayer,
    /// All of it before backward sends its first gradient, with the values that forward has
    /// acquired: trainers in simulated time may share a net.
    kAtOnce,
    kNone,  // never: only its time passes
  };

  struct Options {
    Clock start;
    Clock end;
    int batches = 1;  // per clock (iter_size): its update is the mean of their gradients
    int average_loss = 1;
    int display = 0;        // clocks between two log lines; 0: none
    JobWords words;         // the units of these lines
    int test_interval = 0;  // clocks between two test phases; 0: only at the end
    bool test_initialization = true;
    std::int64_t rank = -1;  // for the log; negative: no server
    DivergenceRule divergence;
    Straggle straggle;
    /// Whether a clock's time without waits must be the time of its batch: the host then waits for
    /// its devices, and a wait for data counts as computing.
    bool measures_batches = false;
    /// Called before each computed clock, with the first of the clocks that were skipped before
    /// it; may be empty.
    std::function<void(Clock first, Clock clock)> before_clock;
    /// Whether the nets must be idle at that call: the host then waits for all queued work. Empty:
    /// never.
    std::function<bool(Clock clock)> is_idle_before;
    /// Whether the replicas' batches change in size or place at the clock that is about to begin;
    /// may wait. Empty: never. Errors: closed, the run must stop.
    std::function<Result<bool>(Clock clock)> changes_batch;
    /// Gives the replicas the nets and the data for the change. REQUIRES: the nets are idle.
    std::function<Result<void>(Clock clock)> change_batch;
    /// Whether a clock may be trained; called again until it may, or the run must stop. Empty:
    /// always.
    std::function<bool(Clock clock)> may_train;
    /// Whether this worker leaves before clock `next`, which has not begun; may be empty.
    std::function<bool(Clock next)> leaves;
    Recorder* recorder = nullptr;  // nullptr: no records
    Pace* pace = &machine_pace();
    Arithmetic arithmetic = Arithmetic::kLayerByLayer;
  };

  /// replicas  all on one device, computed in turn; or each on its own device
  /// tests     nullptr: this process runs no test phase
  Trainer(std::vector<Replica>& replicas, ParameterCache& cache, TestPhases* tests, Options options,
          ProgressBoard& board);

  /// Trains from start to end, or until `stop` is set. Returns the clock that it reached.
  /// Errors    as ParameterCache::acquire and DataLoader::next; closed: `stop` was set while a test
  ///           ran
  [[nodiscard]] Result<Clock> run(const std::atomic<bool>& stop);

 private:
  [[nodiscard]] TimePoint now() const { return options_.pace->now(); }
  [[nodiscard]] bool test_is_due(Clock first, Clock clock) const;
  [[nodiscard]] Result<Duration> begin_batch(Clock clock);
  [[nodiscard]] Result<Duration> wait_while_held(Clock clock);
  /// Memory in which a device writes the losses of one clock.
  struct LateLoss {
    HostBuffer numbers;
    std::unique_ptr<Mark> written;
  };
  /// A device, which computes one replica at a time.
  struct Device {
    Backend* backend;
    std::array<LateLoss, kMaxUnread> losses{};  // a ring of clocks; unused if not is_late_
    std::unique_ptr<BatchFeed> feed;     // nullptr: batches are copied in the compute's stream
    std::vector<DeviceBuffer> gathered;  // by table: gradients of a clock's earlier batches
    // Last, so that it ends first: queued work uses the others.
    std::unique_ptr<Stream> stream;
  };
  /// A clock with a loss that has not been read yet.
  struct Unread {
    Clock clock;
    std::size_t place = 0;  // in Device::losses
    Duration took{0};
    Duration wait{0};
  };
  /// One batch of a clock, on one replica for each device: batch 0 reads parameters, the last one
  /// sends the updates.
  struct Step {
    std::size_t first = 0;  // the first of these replicas
    Clock clock;
    int batch = 0;
  };
  /// The input of a replica: one blob for each input of the net.
  using Fed = std::vector<std::span<const float>>;
  using Arriving = std::vector<DeviceSpan<const float>>;
  void add_device(Backend& backend);
  [[nodiscard]] Replica& replica_of(const Step& step, std::size_t device) const {
    return replicas_[step.first + device];
  }
  [[nodiscard]] Result<void> dry_run_device();
  [[nodiscard]] Result<void> dry_run();
  [[nodiscard]] Result<void> train_clock(Clock clock);
  void straggle(Clock clock, Duration since_begin, Duration waited_before);
  [[nodiscard]] Clock draw_of(const Step& step) const;
  [[nodiscard]] Result<std::vector<data::Batch>> next_batches(const Step& step);
  [[nodiscard]] Result<void> name_rows(const Step& step, std::span<const data::Batch> batches);
  [[nodiscard]] Result<void> name_ahead(Clock clock);
  void take_batches(const Step& step, std::vector<data::Batch> batches);
  [[nodiscard]] Result<void> forward(const Step& step);
  [[nodiscard]] Result<void> bring_parameters(const Step& step, std::size_t device,
                                              std::size_t layer);
  void backward(const Step& step);
  void bind_gradients(const Step& step, std::size_t device, std::size_t layer);
  [[nodiscard]] Result<void> compute_at_once(const Step& step);
  [[nodiscard]] double loss_of(const Step& step, std::size_t device);
  void send_gradients(const Step& step, std::size_t device, std::size_t layer);
  void gather(const Step& step, std::size_t device, TableId table);
  [[nodiscard]] bool is_last(const Step& step) const { return step.batch + 1 == options_.batches; }
  void copy_losses(const Step& step);
  [[nodiscard]] Result<void> read_losses(std::size_t keep);
  [[nodiscard]] Result<void> read_loss();
  [[nodiscard]] Result<void> test(Clock clock);
  void record(Clock clock, Duration took, Duration wait);
  void record_table(const Device& device, TableId table, const char* what, Clock clock,
                    DeviceSpan<const float> values);

  std::vector<Replica>& replicas_;
  ParameterCache& cache_;
  TestPhases* tests_;
  const Options options_;
  ProgressBoard& board_;
  // The batches that the devices compute with; empty if is_late_. Declared before the devices: if
  // one fails, copies from here may be queued until its stream ends.
  std::vector<data::Batch> batches_;
  std::vector<data::Batch> ahead_;  // of the next clock, with rows already named; empty: none
  std::vector<Device> devices_;     // replica i is on device i modulo their number
  ProgressReport report_;
  std::vector<float> table_copy_;       // on the host, for its histogram
  std::vector<double> losses_;          // of the last average_loss clocks
  double loss_ = 0;                     // of a clock, over all replicas
  Duration waited_{0};                  // for parameters and data
  std::vector<double> at_once_losses_;  // by device, of the batch that was computed at once
  bool is_late_ = false;
  std::deque<Unread> unread_;  // oldest first
  std::size_t place_ = 0;      // in Device::losses, for the clock that is queued
  const std::atomic<bool>* stop_ = nullptr;
  Duration backward_{0};  // the time of the last backward
  RecentRate rate_;
};

}  // namespace taut::worker
