// A clock's loss: read late where the host is ahead of its devices, and recorded with its figures.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/log.hpp"
#include "worker/training/trainer.hpp"

namespace taut::worker {

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

/// Records the clocks with losses that the device has written. Waits only while more than `keep`
/// clocks are unread.
Result<void> Trainer::read_losses(std::size_t keep) {
  while (!unread_.empty()) {
    // One clock after the other, so that the first fault in their data is the one reported.
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

/// Records the oldest unread clock. REQUIRES: its losses have been written.
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

/// wait  in total, up to this clock's end
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
    log::info("iteration {}: loss {:.4f}, {:.0f} {}", clock.value(), report_.loss,
              options_.words.items_per_record * rate, options_.words.rate());
  }
}

/// Records a table's values, the first device's if there are several. A table by rows is left out:
/// its batch names other rows at each clock.
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
