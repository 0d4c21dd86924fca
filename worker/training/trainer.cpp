#include "worker/training/trainer.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/log.hpp"

namespace taut::worker {
namespace {

constexpr const char* kCycle = "training";

}  // namespace

Trainer::Trainer(std::vector<Replica>& replicas, ParameterCache& cache, TestPhases* tests,
                 Options options, ProgressBoard& board)
    : replicas_(replicas),
      cache_(cache),
      tests_(tests),
      options_(std::move(options)),
      board_(board) {
  report_.clock = options_.start;
  const Backend& first = *replicas_[0].backend;
  // A straggler's wait depends on the compute time, so the host must wait for the compute.
  is_late_ = !first.shares_host_memory() && !first.needs_dry_run() && !options_.straggle &&
             !options_.measures_batches;
  for (const Replica& replica : replicas_) {
    const bool known = std::ranges::any_of(
        devices_, [&](const Device& device) { return device.backend == replica.backend; });
    if (!known) add_device(*replica.backend);
  }
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Device& device = devices_[i % devices_.size()];
    TAUT_CHECK(replicas_[i].backend == device.backend,
               "all replicas on one device, or one on each");
    cache_.compute_on(i, *device.stream);
  }
}

void Trainer::add_device(Backend& backend) {
  Device& device = devices_.emplace_back();
  device.backend = &backend;
  device.stream = backend.make_stream();
  if (is_late_) {
    const std::size_t numbers = replicas_.size() * replicas_[0].net->loss_count() *
                                static_cast<std::size_t>(options_.batches);
    for (LateLoss& late : device.losses) {
      late.numbers = backend.allocate_host(Bytes(numbers * sizeof(float)));
      late.written = device.stream->make_mark();
    }
    device.feed = std::make_unique<BatchFeed>(backend);
  }
  if (options_.batches == 1) return;
  for (const TableSpec& table : replicas_[0].net->parameters()) {
    const bool pushed = table.kind != TableKind::kFrozen;
    const std::string name = "gradient of parameter " + table.name;
    device.gathered.push_back(
        pushed ? backend.allocate_floats(table.count(), BufferKind::kGradient, name)
               : DeviceBuffer());
  }
}

Result<Clock> Trainer::run(const std::atomic<bool>& stop) {
  stop_ = &stop;
  TAUT_TRY(dry_run_device());
  Clock clock = options_.start;
  const auto leaves = [this](Clock next) { return options_.leaves && options_.leaves(next); };
  while (clock < options_.end && !stop && !leaves(clock)) {
    const Clock first = clock;
    board_.begin_wait(now());
    auto begun = cache_.begin_clock(first);
    Duration waited = board_.end_wait(now());
    TAUT_TRY(clock, std::move(begun));
    clock = std::min(clock, options_.end);
    if (clock == options_.end) break;
    log::set_context(options_.rank, clock.value());
    TAUT_TRY(const Duration held, begin_batch(clock));
    waited += held;
    waited_ += waited;
    // The nets are idle only when the last loss has been read.
    const bool tests_now = test_is_due(first, clock);
    if ((options_.is_idle_before && options_.is_idle_before(clock)) || tests_now) {
      TAUT_TRY(read_losses(0));
    }
    if (options_.before_clock) options_.before_clock(first, clock);
    if (tests_now) {
      TAUT_TRY(test(clock));
    }
    TAUT_TRY(const Duration held_to_end, wait_while_held(clock));
    if (stop) break;
    waited += held_to_end;
    waited_ += held_to_end;
    const TimePoint begin = now();
    if (!report_.first_iteration) {
      report_.first_iteration = begin;
      rate_.take(begin, 0);
    }
    TAUT_TRY(train_clock(clock));
    TAUT_TRY(name_ahead(clock.next()));
    const Duration took = waited + (now() - begin);
    if (is_late_) {
      unread_.push_back({.clock = clock, .place = place_, .took = took, .wait = waited_});
      place_ = (place_ + 1) % kMaxUnread;
      TAUT_TRY(read_losses(kMaxUnread - 1));
    } else {
      record(clock, took, waited_);
    }
    clock = clock.next();
  }
  TAUT_TRY(read_losses(0));
  log::clear_context();
  return clock;
}

/// Gives the replicas another part of the batch if it changes at this clock. Returns the time
/// waited.
Result<Duration> Trainer::begin_batch(Clock clock) {
  if (!options_.changes_batch) return Duration(0);
  board_.begin_wait(now());
  auto changes = options_.changes_batch(clock);
  const Duration waited = board_.end_wait(now());
  if (!changes) return changes.error();
  if (!changes.value()) return waited;
  TAUT_TRY(read_losses(0));
  for (Device& device : devices_) {
    device.stream->finish();
    if (device.feed != nullptr) device.feed->drain();
  }
  TAUT_TRY(options_.change_batch(clock));
  return waited;
}

/// Waits while the next clock may not be trained. Returns the time waited.
Result<Duration> Trainer::wait_while_held(Clock clock) {
  if (!options_.may_train || options_.may_train(clock)) return Duration(0);
  constexpr Duration kStep{2'000};
  log::info("clock {} is not begun: the job is saved to end", clock.value());
  TAUT_TRY(read_losses(0));
  board_.begin_wait(now());
  while (!*stop_ && !options_.may_train(clock)) options_.pace->sleep(kStep);
  return board_.end_wait(now());
}

/// Whether a test is due at one of the clocks from `first` to `clock`.
bool Trainer::test_is_due(Clock first, Clock clock) const {
  if (options_.test_interval <= 0) return false;
  const Clock newest = clock - clock.value() % options_.test_interval;
  return newest >= first && (newest > Clock(0) || options_.test_initialization);
}

Result<void> Trainer::dry_run_device() {
  const Device& device = devices_[0];
  if (devices_.size() == 1) {
    return device.backend->dry_run(*device.stream, kCycle, [this] { return dry_run(); });
  }
  for (const Device& one : devices_) {
    TAUT_CHECK(!one.backend->needs_dry_run(), "a budget is kept on one device");
  }
  return ok();
}

/// Makes a clock's calls for a dry run of a device that plans memory; no data is drawn.
Result<void> Trainer::dry_run() {
  for (Step step{.clock = options_.start}; step.first < replicas_.size();
       step.first += devices_.size()) {
    const Fed nothing(replicas_[0].net->fed_count());
    for (step.batch = 0; step.batch < options_.batches; ++step.batch) {
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        replica_of(step, i).net->set_batch(*devices_[i].stream, nothing);
      }
      TAUT_TRY(forward(step));
      backward(step);
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        static_cast<void>(replica_of(step, i).net->loss(*devices_[i].stream));
      }
    }
    for (std::size_t i = 0; i < devices_.size(); ++i)
      cache_.finish_clock(step.first + i, step.clock);
  }
  return ok();
}

Result<void> Trainer::train_clock(Clock clock) {
  loss_ = 0;
  for (const Device& device : devices_) device.backend->begin_cycle(*device.stream, kCycle);
  const TimePoint begin = now();
  const Duration waited_before = waited_;
  const double losses = static_cast<double>(replicas_.size()) * options_.batches;
  for (Step step{.clock = clock}; step.first < replicas_.size(); step.first += devices_.size()) {
    const bool is_last_step = step.first + devices_.size() == replicas_.size();
    for (step.batch = 0; step.batch < options_.batches; ++step.batch) {
      const bool at_once = options_.arithmetic == Arithmetic::kAtOnce;
      // The batch determines the rows to read.
      if (!at_once || !replica_of(step, 0).rows.empty()) {
        const bool are_named = !ahead_.empty();
        TAUT_TRY(std::vector<data::Batch> batches, next_batches(step));
        if (!are_named) {
          TAUT_TRY(name_rows(step, batches));
        }
        take_batches(step, std::move(batches));
      }
      TAUT_TRY(forward(step));
      if (options_.straggle && is_last_step && is_last(step)) {
        straggle(clock, now() - begin, waited_before);
      }
      const TimePoint turned = now();
      if (at_once) {
        TAUT_TRY(compute_at_once(step));
      }
      backward(step);
      backward_ = now() - turned;
      if (is_late_) {
        copy_losses(step);
        continue;
      }
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        loss_ += loss_of(step, i) / losses;
        // The stream has completed: nothing reads the batch any more.
        if (!at_once) replica_of(step, i).loader->recycle(std::move(batches_[i]));
      }
    }
    for (std::size_t i = 0; i < devices_.size(); ++i) cache_.finish_clock(step.first + i, clock);
  }
  for (const Device& device : devices_) device.backend->end_cycle();
  return is_late_ ? ok() : options_.divergence.check_loss(loss_, clock, board_);
}

/// Waits as a slow worker would that has read its parameters and has not pushed yet: between
/// forward and backward. The time of the backward is estimated from the last clock.
void Trainer::straggle(Clock clock, Duration since_begin, Duration waited_before) {
  const Duration compute = since_begin - (waited_ - waited_before) + backward_;
  const TimePoint until = now() + options_.straggle(clock, compute);
  constexpr Duration kStep{20'000};
  for (TimePoint at = now(); at < until && !*stop_; at = now()) {
    options_.pace->sleep(std::min(kStep, until - at));
  }
}

Result<void> Trainer::test(Clock clock) {
  if (tests_ == nullptr) return ok();
  TAUT_TRY(const TestResult result, tests_->run(cache_, clock, options_.recorder, *stop_));
  report_.tests.push_back(result);
  board_.post(report_);
  return options_.divergence.check("the loss of the test", result.loss, clock, board_);
}

}  // namespace taut::worker
