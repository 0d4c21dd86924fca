#include "worker/cache/device_values.hpp"

#include <cstdint>
#include <utility>

#include "common/log.hpp"
#include "worker/engine/memory_use.hpp"

namespace taut {

DeviceValues::DeviceValues(Backend& backend)
    : backend_(backend), stream_(backend.make_copy_stream()) {}

void DeviceValues::add(const TableSpec& spec) {
  Table table;
  table.name = "parameter " + spec.name;
  table.count = spec.count();
  table.changes = spec.kind != TableKind::kFrozen;
  table.front = make_place(table.name, table.count);
  table.fresh = backend_.allocate_host(Bytes(table.count * sizeof(float)));
  tables_.push_back(std::move(table));
}

DeviceValues::Place DeviceValues::make_place(const std::string& name, std::size_t count) const {
  return {backend_.allocate_floats(count, BufferKind::kParameter, name), backend_.make_event(),
          backend_.make_event()};
}

std::span<float> DeviceValues::fresh(TableId table) const {
  return tables_[table.value()].fresh.as<float>();
}

void DeviceValues::try_second_buffers() {
  if (std::exchange(is_placed_, true) || backend_.needs_dry_run()) return;
  std::uint64_t bytes = 0;
  for (const Table& table : tables_) {
    if (table.changes) bytes += table.count * sizeof(float);
  }
  // Libraries allocate more memory later, and so does a test phase.
  if (const auto use = memory_use(backend_); use && use->free.value() / 2 < bytes) {
    log::info(
        "parameters have one buffer on the device: a second one needs {} bytes of the {} free",
        bytes, use->free.value());
    return;
  }
  std::vector<Place> places(tables_.size());
  try {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      if (tables_[i].changes) places[i] = make_place(tables_[i].name, tables_[i].count);
    }
  } catch (const DeviceError& full) {
    log::info("parameters have one buffer on the device: {}", full.what());
    return;
  }
  // Several workers on one device may have seen the same free memory.
  if (const auto use = memory_use(backend_); use && use->free.value() < bytes) {
    log::info("parameters have one buffer on the device: others have taken its memory meanwhile");
    return;
  }
  std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i].back = std::move(places[i]);
  has_second_ = true;
}

/// REQUIRES: the lock.
void DeviceValues::start_copy(const Table& table, const Place& to) {
  to.used->wait(*stream_);
  backend_.copy_to_device(*stream_, table.fresh.as<float>(), to.memory.as<float>());
  to.arrived->record(*stream_);
}

void DeviceValues::copy_ahead(TableId id) {
  std::scoped_lock lock(mutex_);
  Table& table = tables_[id.value()];
  table.is_ahead = false;
  if (table.back.memory.size() == Bytes(0)) return;
  start_copy(table, table.back);
  table.is_ahead = true;
}

void DeviceValues::bring(TableId id, Stream& compute) {
  std::scoped_lock lock(mutex_);
  Table& table = tables_[id.value()];
  const bool has_second = table.back.memory.size() != Bytes(0);
  if (!std::exchange(table.is_ahead, false)) {
    start_copy(table, has_second ? table.back : table.front);
  }
  // Also if the copy was not made ahead: recordings of a net's calls then see the same two
  // arrangements alternate.
  if (has_second) std::swap(table.front, table.back);
  table.front.arrived->wait(compute);
}

void DeviceValues::await_front(TableId id, Stream& compute) {
  std::scoped_lock lock(mutex_);
  tables_[id.value()].front.arrived->wait(compute);
}

DeviceSpan<const float> DeviceValues::front(TableId table) const {
  return tables_[table.value()].front.memory.as<float>();
}

void DeviceValues::mark_used(TableId id, Stream& compute) {
  std::scoped_lock lock(mutex_);
  tables_[id.value()].front.used->record(compute);
}

void DeviceValues::finish() {
  std::scoped_lock lock(mutex_);
  stream_->finish();
}

}  // namespace taut
