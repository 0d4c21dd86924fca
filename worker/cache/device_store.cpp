#include "worker/cache/device_store.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"

namespace taut {

DeviceStore::DeviceStore(Client& client, Backend& backend, const std::vector<TableSpec>& tables,
                         const ServedOptions& options)
    : client_(client),
      backend_(backend),
      options_(options),
      own_stream_(backend.make_stream()),
      compute_(own_stream_.get()),
      values_(backend, client.pinning()),
      to_host_(backend.make_copy_stream()),
      measured_(backend.make_event()) {
  for (const TableSpec& spec : tables) add_table(spec);
}

DeviceStore::~DeviceStore() {
  stop();
}

void DeviceStore::add_table(const TableSpec& spec) {
  values_.add(spec);
  Table& table = tables_.emplace_back();
  table.id = spec.id;
  table.is_trained = spec.kind == TableKind::kTrained;
  if (spec.kind == TableKind::kFrozen || spec.rows) return;
  table.computed = backend_.make_event();
  table.squares = backend_.allocate_host(Bytes(2 * sizeof(double)));
  table.gradient = backend_.allocate_floats(spec.count(), BufferKind::kGradient,
                                            "gradient of parameter " + spec.name);
}

void DeviceStore::start() {
  GradientSender::Options sending;
  sending.norm = options_.norm;
  sending.at_once = options_.overlap && options_.norm != math::UpdateNorm::kGradient;
  sending.limit = std::max<std::size_t>(2 * tables_.size() + 2, 16);
  sender_ = std::make_unique<GradientSender>(client_, sending);
  encoder_ = std::make_unique<DeviceEncoder>(client_, backend_);
  for (const Table& table : tables_) {
    if (table.is_trained && table.computed) encoder_->add(table.id, options_.start);
  }
  if (options_.overlap) {
    client_.on_read([this](TableId table, Clock) { copy_ahead(table); });
    client_.on_values(
        [this](std::span<float> into, const Frame& values) { values_.take(into, values); });
  }
}

/// Finishes the copies first: they write into memory of the sender and the client. A device that
/// failed throws again here, after the failure was reported elsewhere.
void DeviceStore::stop() noexcept {
  if (!sender_) return;
  client_.on_read({});
  client_.on_values({});
  const auto finish = [](auto& copies) {
    try {
      copies.finish();
    } catch (const std::exception& fault) {
      log::debug("the copies were cut short: {}", fault.what());
    }
  };
  finish(*to_host_);
  finish(values_);
  sender_.reset();
  encoder_.reset();
}

/// Frozen values are brought once, before the stream of the compute is known.
void DeviceStore::compute_on(Stream& stream) {
  compute_ = &stream;
  for (const Table& table : tables_) {
    if (table.was_brought) values_.await_front(table.id, stream);
  }
}

/// Runs on the client's thread. The device's error recurs on the compute thread, in bring().
void DeviceStore::copy_ahead(TableId table) noexcept {
  try {
    values_.copy_ahead(table);
  } catch (const std::exception& fault) {
    log::debug("values were not copied ahead: {}", fault.what());
  }
}

void DeviceStore::bring(TableId id) {
  Table& table = tables_[id.value()];
  // Second buffers take only memory that is free after the first clock, when everything else is
  // allocated.
  if (std::exchange(table.was_brought, true) && options_.overlap && !backend_.in_dry_run()) {
    values_.try_second_buffers();
  }
  values_.bring(id, *compute_);
}

DeviceSpan<float> DeviceStore::gradient(TableId id) {
  Table& table = tables_[id.value()];
  if (table.copied) table.copied->wait(*compute_);
  return table.gradient.as<float>();
}

void DeviceStore::publish(TableId id, Clock clock) {
  measure(tables_[id.value()]);
  if (sends_at_once()) {
    send(id, clock, 0);
  } else {
    published_.push_back(id);
  }
}

void DeviceStore::finish_clock(Clock clock) {
  const float norm = published_.empty() || !encoder_->clips() ? 0 : published_norm();
  for (const TableId id : std::exchange(published_, {})) send(id, clock, norm);
  if (!backend_.in_dry_run()) sender_->finish_clock();
}

/// Computes the sums that the norm needs; the sender has read the last clock's by now.
void DeviceStore::measure(const Table& table) {
  if (options_.norm == math::UpdateNorm::kNone || !table.is_trained) return;
  const std::span<double> squares = table.squares.as<double>();
  backend_.copy_squares_to_host(*compute_, table.gradient.as<float>(), squares[0]);
  if (options_.norm == math::UpdateNorm::kRelative) {
    backend_.copy_squares_to_host(*compute_, values_.front(table.id), squares[1]);
  }
}

/// The norm of the whole gradient, as the sender computes it. Waits for the compute; faults that
/// the compute has found are reported when the loss is read.
float DeviceStore::published_norm() {
  if (backend_.in_dry_run()) return 0;
  TAUT_CHECK(options_.norm == math::UpdateNorm::kGradient,
             "sums of squares, where updates are clipped");
  measured_->record(*compute_);
  measured_->finish();
  std::vector<double> squares(tables_.size());
  for (const TableId id : published_) {
    Table& table = tables_[id.value()];
    if (table.is_trained) squares[id.value()] = table.squares.as<double>()[0];
  }
  return math::gradient_norm(std::accumulate(squares.begin(), squares.end(), 0.0));
}

/// Starts the copy of a gradient to the host; the sender pushes it when the copy is complete. The
/// encoded update on the device may be overwritten: gradient() has waited for its last copy.
/// norm  of the whole gradient, if what is encoded on the device is clipped
void DeviceStore::send(TableId id, Clock clock, float norm) {
  Table& table = tables_[id.value()];
  values_.mark_used(id, *compute_);
  auto encoded = encoder_->encode(id, clock, table.gradient.as<float>(), norm, *compute_);
  table.computed->record(*compute_);
  table.computed->wait(*to_host_);
  const DeviceSpan<const float> computed = encoded ? encoded->values : table.gradient.as<float>();
  if (backend_.in_dry_run()) {
    // Any host memory of that size will do: nothing is copied.
    backend_.copy_to_host(*to_host_, computed, values_.fresh(id));
    return;
  }
  // The client keeps the buffer until the shards have it; the next gradient gets another one.
  const Buffer gradient =
      encoded ? client_.update_buffer(encoded->how.bytes) : client_.gradient_buffer(id);
  backend_.copy_to_host(*to_host_, computed, gradient.floats());
  table.copied = backend_.make_event();
  table.copied->record(*to_host_);
  sender_->hand_over({id, clock, table.is_trained, gradient, table.copied, values_.fresh(id),
                      table.squares.as<double>().first<2>(),
                      encoded ? std::optional(std::move(encoded->how)) : std::nullopt});
}

Result<void> DeviceStore::check() const {
  const std::string failure = sender_->failure();
  if (failure.empty()) return ok();
  return make_error(ErrorCode::kUnavailable, failure);
}

Result<void> DeviceStore::drain(Duration wait) {
  if (!sender_->drain(wait)) {
    return make_error(ErrorCode::kTimeout, "the copies of gradients from the device took too long");
  }
  // A gradient whose copy failed is drained too, although it was never sent.
  return check();
}

}  // namespace taut
