// A batch's passes: forward as parameters arrive, backward as gradients are sent; or both at once.
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/timeline.hpp"
#include "worker/training/trainer.hpp"

namespace taut::worker {

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

/// Draws a batch and computes it forward and backward, on nets that others may have used meanwhile.
/// The batch exists only during this call, unless its rows had to be read before.
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

/// Adds a batch's gradient to the earlier ones; the last batch turns the sum into the mean. A
/// clock's new running statistics are the mean of those that each batch computes from the old ones.
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

}  // namespace taut::worker
