#include "worker/training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"
#include "common/timeline.hpp"

namespace taut::worker {
namespace {

constexpr Duration kDataWait{60'000'000};
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
  // What a straggler adds is measured by the compute, so the host then waits for it.
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

/// Gives the replicas another part of the batch where that begins. Returns how long it waited.
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

/// Waits while a clock that would be next may not be trained. Returns how long.
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

/// A dry run of a clock's calls, for a device that plans memory; no data is drawn. Otherwise it
/// does nothing.
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
      // Which rows are read is in the batch.
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

/// Queues the copies of a batch's losses to the host; the last ones of a clock are marked.
void Trainer::copy_losses(const Step& step) {
  const std::size_t count = replicas_[0].net->loss_count();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const LateLoss& into = devices_[i].losses[place_];
    const std::size_t number = (step.first + i) * static_cast<std::size_t>(options_.batches) +
                               static_cast<std::size_t>(step.batch);
    replica_of(step, i).net->copy_losses(*devices_[i].stream,
                                         into.numbers.as<float>().subspan(number * count, count));
    if (step.first + devices_.size() == replicas_.size() && is_last(step)) into.written->record();
  }
}

/// Records the clocks whose losses the device has written. It waits only where more than `keep`
/// would be left.
Result<void> Trainer::read_losses(std::size_t keep) {
  while (!unread_.empty()) {
    // One clock after the other: of the faults in their data, the first one is reported.
    for (const Device& device : devices_) {
      Mark& written = *device.losses[unread_.front().place].written;
      if (written.passed()) continue;
      if (unread_.size() <= keep) return ok();
      written.finish();
    }
    TAUT_TRY(read_loss());
  }
  return ok();
}

/// Records the oldest unread clock, whose losses have been written.
Result<void> Trainer::read_loss() {
  const Unread unread = unread_.front();
  unread_.pop_front();
  const std::size_t count = replicas_[0].net->loss_count();
  const auto batches = static_cast<std::size_t>(options_.batches);
  loss_ = 0;
  for (std::size_t i = 0; i < replicas_.size() * batches; ++i) {
    const Replica& replica = replicas_[i / batches];
    const LateLoss& from = devices_[i / batches % devices_.size()].losses[unread.place];
    loss_ += replica.net->loss_of(from.numbers.as<float>().subspan(i * count, count)) /
             static_cast<double>(replicas_.size() * batches);
  }
  TAUT_TRY(options_.divergence.check_loss(loss_, unread.clock, board_));
  record(unread.clock, unread.took, unread.wait);
  return ok();
}

/// A slow worker has read its parameters and has not pushed yet: it waits between forward and
/// backward. How long backward will take is known from the last clock.
void Trainer::straggle(Clock clock, Duration since_begin, Duration waited_before) {
  const Duration compute = since_begin - (waited_ - waited_before) + backward_;
  const TimePoint until = now() + options_.straggle(clock, compute);
  constexpr Duration kStep{20'000};
  for (TimePoint at = now(); at < until && !*stop_; at = now()) {
    options_.pace->sleep(std::min(kStep, until - at));
  }
}

/// The number of a batch's random draw, different for each batch of a clock.
Clock Trainer::draw_of(const Step& step) const {
  return Clock(step.clock.value() * options_.batches + step.batch);
}

/// The batches of a draw; those of skipped clocks are returned.
Result<std::vector<data::Batch>> Trainer::next_batches(const Step& step) {
  if (!ahead_.empty()) {
    TAUT_CHECK(ahead_[0].clock == draw_of(step), "no clock is skipped whose rows were named");
    return std::exchange(ahead_, {});
  }
  const auto load = [&]() -> Result<std::vector<data::Batch>> {
    const timeline::Span span(timeline::Row::kWait, "data", step.clock.value());
    std::vector<data::Batch> batches;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      data::DataLoader& loader = *replica_of(step, i).loader;
      auto loaded = loader.next(kDataWait);
      while (loaded && loaded.value().clock < draw_of(step)) {
        loader.recycle(std::move(loaded.value()));
        loaded = loader.next(kDataWait);
      }
      TAUT_TRY(data::Batch batch, std::move(loaded));
      batches.push_back(std::move(batch));
    }
    return batches;
  };
  if (options_.measures_batches) return load();
  board_.begin_wait(now());
  auto batches = load();
  waited_ += board_.end_wait(now());
  return batches;
}

/// Starts to read the rows that batches name, one for each device.
Result<void> Trainer::name_rows(const Step& step, std::span<const data::Batch> batches) {
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (const model::RowParameter& one : replica_of(step, i).rows) {
      const TableId table(static_cast<std::uint32_t>(one.parameter));
      TAUT_TRY(cache_.name_rows(step.first + i, table, step.clock, batches[i].rows[one.fed]));
    }
  }
  return ok();
}

/// Names the rows of a clock that is to begin, if its batch is ready: servers then answer as soon
/// as they may.
Result<void> Trainer::name_ahead(Clock clock) {
  if (clock >= options_.end || replicas_.size() > 1 || replicas_[0].rows.empty()) return ok();
  const Step step{.clock = clock};
  auto loaded = replicas_[0].loader->next(Duration(0));
  // A loader that has ended says so again when the clock begins.
  if (!loaded) return ok();
  std::vector<data::Batch> batches;
  batches.push_back(std::move(loaded.value()));
  TAUT_TRY(name_rows(step, batches));
  ahead_ = std::move(batches);
  return ok();
}

/// Queues the way of batches, one for each device, to its net.
void Trainer::take_batches(const Step& step, std::vector<data::Batch> batches) {
  batches_ = std::move(batches);
  if (options_.arithmetic != Arithmetic::kLayerByLayer) return;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const Device& device = devices_[i];
    Replica& replica = replica_of(step, i);
    if (device.feed == nullptr) {
      replica.net->set_batch(*device.stream, batches_[i].spans());
      continue;
    }
    const Arriving arriving =
        device.feed->bring(*device.stream, std::move(batches_[i]), *replica.loader);
    replica.net->set_batch(*device.stream, arriving);
    device.feed->mark_taken(*device.stream);
  }
}

Result<void> Trainer::forward(const Step& step) {
  // Layer by layer: work is only queued here, so no device waits for another one's net.
  const std::size_t layers = replicas_[0].net->layer_count();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (step.batch == 0) {
        TAUT_TRY(bring_parameters(step, i, layer));
      }
      if (options_.arithmetic != Arithmetic::kLayerByLayer) continue;
      const timeline::Span span(timeline::Row::kCompute, "forward", step.clock.value());
      replica_of(step, i).net->forward(layer, *devices_[i].stream, draw_of(step));
    }
    options_.pace->computed(Pace::Pass::kForward, layer, step.clock);
  }
  return ok();
}

Result<void> Trainer::bring_parameters(const Step& step, std::size_t device, std::size_t layer) {
  Net& net = *replica_of(step, device).net;
  for (const std::size_t parameter : net.parameters_of(layer)) {
    const TableId table(static_cast<std::uint32_t>(parameter));
    board_.begin_wait(now());
    auto acquired = [&] {
      const timeline::Span span(timeline::Row::kWait, net.parameters()[parameter].name,
                                step.clock.value());
      return cache_.acquire(step.first + device, table, step.clock);
    }();
    waited_ += board_.end_wait(now());
    TAUT_TRY(const auto values, std::move(acquired));
    net.bind_value(parameter, values);
    record_table(devices_[device], table, "value", step.clock, values);
  }
  return ok();
}

void Trainer::backward(const Step& step) {
  for (std::size_t layer = replicas_[0].net->layer_count(); layer-- > 0;) {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (options_.arithmetic == Arithmetic::kLayerByLayer) {
        bind_gradients(step, i, layer);
        const timeline::Span span(timeline::Row::kCompute, "backward", step.clock.value());
        replica_of(step, i).net->backward(layer, *devices_[i].stream);
      }
      options_.pace->computed(Pace::Pass::kBackward, layer, step.clock);
      send_gradients(step, i, layer);
    }
  }
}

void Trainer::bind_gradients(const Step& step, std::size_t device, std::size_t layer) {
  Net& net = *replica_of(step, device).net;
  const auto tables = net.parameters();
  for (const std::size_t table : net.parameters_of(layer)) {
    if (tables[table].kind == TableKind::kFrozen) continue;
    net.bind_gradient(table, cache_.gradient(step.first + device, tables[table].id));
  }
}

/// Draws a batch and computes it forward and backward, on whatever nets others have used meanwhile;
/// the batch exists only for that time, but where its rows had to be read before.
Result<void> Trainer::compute_at_once(const Step& step) {
  if (replica_of(step, 0).rows.empty()) {
    TAUT_TRY(batches_, next_batches(step));
  }
  at_once_losses_.assign(devices_.size(), 0);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    Net& net = *replica_of(step, i).net;
    Stream& stream = *devices_[i].stream;
    for (const TableSpec& table : net.parameters()) {
      const auto values = cache_.acquire(step.first + i, table.id, step.clock);
      TAUT_CHECK(values.has_value(), "forward has acquired every table of this clock");
      net.bind_value(table.id.value(), values.value());
    }
    net.set_batch(stream, batches_[i].spans());
    for (std::size_t layer = 0; layer < net.layer_count(); ++layer) {
      net.forward(layer, stream, draw_of(step));
    }
    for (std::size_t layer = net.layer_count(); layer-- > 0;) {
      bind_gradients(step, i, layer);
      net.backward(layer, stream);
    }
    at_once_losses_[i] = net.loss(stream);
  }
  batches_.clear();
  return ok();
}

double Trainer::loss_of(const Step& step, std::size_t device) {
  switch (options_.arithmetic) {
    case Arithmetic::kAtOnce:
      return at_once_losses_[device];
    case Arithmetic::kNone:
      return 0;
    case Arithmetic::kLayerByLayer:
      break;
  }
  return replica_of(step, device).net->loss(*devices_[device].stream);
}

/// Sends the gradients that a layer's backward has completed.
void Trainer::send_gradients(const Step& step, std::size_t device, std::size_t layer) {
  const std::size_t replica = step.first + device;
  const Net& net = *replicas_[replica].net;
  for (const std::size_t table : net.gradients_after(layer)) {
    const TableId id = net.parameters()[table].id;
    if (options_.batches > 1) gather(step, device, id);
    if (!is_last(step)) continue;
    record_table(devices_[device], id, "gradient", step.clock, cache_.gradient(replica, id));
    cache_.publish(replica, id, step.clock);
  }
}

/// Adds a batch's gradient to the earlier ones; the last batch turns the sum into the mean. The
/// new running statistics of a clock are the mean of what each batch makes of the old ones.
void Trainer::gather(const Step& step, std::size_t device, TableId table) {
  Backend& backend = *devices_[device].backend;
  Stream& stream = *devices_[device].stream;
  const DeviceSpan<float> gradient = cache_.gradient(step.first + device, table);
  const DeviceSpan<float> sum = devices_[device].gathered[table.value()].as<float>();
  if (step.batch == 0) {
    backend.copy(stream, gradient, sum);
  } else if (!is_last(step)) {
    backend.add(stream, gradient, sum);
  } else {
    const float share = 1.0F / static_cast<float>(options_.batches);
    const std::array<Term, 2> terms = {Term{sum, share}, Term{gradient, share}};
    backend.weighted_sum(stream, terms, gradient);
  }
}

Result<void> Trainer::test(Clock clock) {
  if (tests_ == nullptr) return ok();
  TAUT_TRY(const TestResult result, tests_->run(cache_, clock, options_.recorder, *stop_));
  report_.tests.push_back(result);
  board_.post(report_);
  return options_.divergence.check("the loss of the test", result.loss, clock, board_);
}

/// wait  in all, up to this clock's end
void Trainer::record(Clock clock, Duration took, Duration wait) {
  losses_.push_back(loss_);
  if (losses_.size() > static_cast<std::size_t>(std::max(1, options_.average_loss))) {
    losses_.erase(losses_.begin());
  }
  report_.loss =
      std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
  report_.clock = clock.next();
  report_.wait = wait;
  report_.compute += took;
  for (const Replica& replica : replicas_) {
    report_.images += static_cast<std::uint64_t>(replica.batch * options_.batches);
  }
  report_.last_iteration = now();
  const double rate = rate_.take(report_.last_iteration, report_.images);
  report_.staleness = cache_.staleness();
  report_.traffic = cache_.traffic();
  report_.disagreement = cache_.disagreement();
  if (options_.recorder != nullptr) {
    options_.recorder->on_clock({.clock = clock,
                                 .loss = loss_,
                                 .compute = report_.compute,
                                 .wait = wait,
                                 .images = report_.images,
                                 .staleness = &report_.staleness,
                                 .from_mean = report_.disagreement.from_mean,
                                 .from_neighbours = report_.disagreement.from_neighbours});
  }
  board_.post(report_);
  if (options_.display > 0 && clock.value() % options_.display == 0) {
    log::info("iteration {}: loss {:.4f}, {:.0f} records/s", clock.value(), report_.loss, rate);
  }
}

/// Of several devices, the first one's are recorded. A table by rows has none here: its batch's
/// rows are others at each clock.
void Trainer::record_table(const Device& device, TableId table, const char* what, Clock clock,
                           DeviceSpan<const float> values) {
  if (options_.recorder == nullptr || !options_.recorder->needs_tables(clock)) return;
  if (device.backend->in_dry_run() || &device != devices_.data()) return;
  const TableSpec& spec = replicas_[0].net->parameters()[table.value()];
  if (spec.rows) return;
  table_copy_.resize(values.size());
  device.backend->copy_to_host(*device.stream, values, table_copy_);
  device.stream->finish();
  options_.recorder->on_table(spec.name, what, clock, table_copy_);
}

}  // namespace taut::worker
