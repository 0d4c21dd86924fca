#include "worker/cache/device_values.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"
#include "worker/engine/memory_use.hpp"

namespace taut {
namespace {

// Bytes copied between two marks: lent values should be returned soon, but each mark costs a call.
constexpr std::size_t kMarkedBytes = 4UL << 20U;

}  // namespace

DeviceValues::DeviceValues(Backend& backend, std::shared_ptr<MemoryPinning> pinned)
    : backend_(backend), pinned_(std::move(pinned)), stream_(backend.make_copy_stream()) {}

void DeviceValues::add(const TableSpec& spec) {
  Table table;
  if (spec.rows) {
    // An empty entry, so that table ids stay indices.
    table.changes = false;
    tables_.push_back(std::move(table));
    return;
  }
  table.name = "parameter " + spec.name;
  table.count = spec.count();
  table.changes = spec.kind != TableKind::kFrozen;
  table.front = make_place(table.name, table.count);
  table.fresh = backend_.allocate_host(Bytes(table.count * sizeof(float)));
  places_[table.fresh.as<float>().data()] = tables_.size();
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
  if (pinned_) pinned_->enable();
}

DeviceValues::Table& DeviceValues::table_with(const float* place) {
  const auto behind = places_.upper_bound(place);
  TAUT_CHECK(behind != places_.begin(), "values for no table");
  return tables_[std::prev(behind)->second];
}

/// REQUIRES: the lock.
void DeviceValues::copy_part(const Table& table, const Place& to, std::size_t offset,
                             const std::byte* from, std::size_t count) {
  TAUT_CHECK(offset + count <= table.count, "values beyond their table");
  backend_.copy_to_device(*stream_, std::span(reinterpret_cast<const float*>(from), count),
                          to.memory.as<float>().subspan(offset, count));
}

void DeviceValues::take(std::span<float> into, const Frame& values) {
  TAUT_CHECK(values.size() == into.size_bytes(), "values of another size than their place");
  {
    const std::scoped_lock lock(mutex_);
    Table& table = table_with(into.data());
    const auto offset = static_cast<std::size_t>(into.data() - table.fresh.as<float>().data());
    try {
      let_go();
      if (copy_lent(table, offset, values)) return;
    } catch (const DeviceError& fault) {
      // Nothing is lost: a device that has failed for good fails again in bring().
      log::debug("values were not copied as they arrived: {}", fault.what());
    }
    table.on_host.push_back({offset, into.size()});
  }
  std::memcpy(into.data(), values.bytes().data(), values.size());
}

/// Copies lent values to the second buffer; false if there is none, or the device cannot read them.
/// REQUIRES: the lock.
bool DeviceValues::copy_lent(Table& table, std::size_t offset, const Frame& values) {
  if (!pinned_ || table.back.memory.size() == Bytes(0) || !pinned_->covers(values.bytes())) {
    return false;
  }
  // A peer chooses where its payloads are.
  if (reinterpret_cast<std::uintptr_t>(values.bytes().data()) % alignof(float) != 0) return false;
  if (!table.is_taken) table.back.used->wait(*stream_);
  table.is_taken = true;
  read_.push_back(values);
  read_bytes_ += values.size();
  const std::byte* const begin = values.bytes().data();
  // A driver refuses a copy across the boundary of two pinned parts.
  for (std::size_t at = 0; at < values.size();) {
    const auto place = reinterpret_cast<std::uintptr_t>(begin + at);
    const std::size_t bytes =
        std::min(values.size() - at, MemoryPinning::kPart - place % MemoryPinning::kPart);
    copy_part(table, table.back, offset + at / sizeof(float), begin + at, bytes / sizeof(float));
    at += bytes;
  }
  if (read_bytes_ >= kMarkedBytes) mark_read();
  return true;
}

/// Marks when the copies so far have read their frames. REQUIRES: the lock.
void DeviceValues::mark_read() {
  if (read_.empty()) return;
  Reading reading;
  if (spare_events_.empty()) {
    reading.passed = backend_.make_event();
  } else {
    reading.passed = std::move(spare_events_.back());
    spare_events_.pop_back();
  }
  reading.passed->record(*stream_);
  reading.frames = std::exchange(read_, {});
  read_bytes_ = 0;
  reading_.push_back(std::move(reading));
}

/// Releases lent values that the device has read: until then their shard must not change them.
/// REQUIRES: the lock.
void DeviceValues::let_go() {
  for (; !reading_.empty() && reading_.front().passed->query(); reading_.pop_front()) {
    spare_events_.push_back(std::move(reading_.front().passed));
  }
}

/// REQUIRES: the lock.
void DeviceValues::start_copy(Table& table, const Place& to) {
  const auto fresh = table.fresh.as<float>();
  if (table.is_taken) {
    for (const Part& part : table.on_host) {
      copy_part(table, to, part.offset, std::as_bytes(fresh.subspan(part.offset)).data(),
                part.count);
    }
    mark_read();
  } else {
    to.used->wait(*stream_);
    backend_.copy_to_device(*stream_, fresh, to.memory.as<float>());
  }
  to.arrived->record(*stream_);
  table.is_taken = false;
  table.on_host.clear();
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
  let_go();
  Table& table = tables_[id.value()];
  const bool has_second = table.back.memory.size() != Bytes(0);
  if (!std::exchange(table.is_ahead, false)) {
    start_copy(table, has_second ? table.back : table.front);
  }
  // Even if the copy was not made ahead: recordings of a net's calls always see the same two
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
  let_go();
  tables_[id.value()].front.used->record(compute);
}

void DeviceValues::finish() {
  std::scoped_lock lock(mutex_);
  stream_->finish();
  read_.clear();
  read_bytes_ = 0;
  reading_.clear();
}

}  // namespace taut
