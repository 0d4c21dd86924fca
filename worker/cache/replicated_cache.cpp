#include "worker/cache/replicated_cache.hpp"

#include <exception>
#include <string>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"

namespace taut {
namespace {

// Bytes of gradients that are averaged in one exchange: enough for the devices' full rate, and
// few enough for backward to continue meanwhile.
constexpr Bytes kTogether{4ULL << 20U};

}  // namespace

ReplicatedCache::ReplicatedCache(std::unique_ptr<ParameterCache> first,
                                 std::span<Backend* const> devices,
                                 std::span<const TableSpec> tables, const Options& options)
    : first_(std::move(first)), overlap_(options.overlap) {
  TAUT_CHECK(devices.size() > 1, "a single device needs no copies");
  std::vector<DeviceGroup::Member> members;
  for (Backend* const backend : devices) {
    Device device{backend, backend->make_stream(), nullptr, backend->make_stream()};
    device.compute = device.own_compute.get();
    members.push_back({backend, device.exchange.get()});
    devices_.push_back(std::move(device));
  }
  group_ = make_device_group(std::move(members), options.order);
  for (const TableSpec& table : tables) add_table(table);
  // For the first device's cache the exchange is the compute: it reads the values and produces the
  // gradient.
  first_->compute_on(0, *devices_[0].exchange);
}

ReplicatedCache::~ReplicatedCache() {
  for (const Device& device : devices_) {
    try {
      device.exchange->finish();
    } catch (const std::exception& fault) {
      log::debug("the exchange between devices was cut short: {}", fault.what());
    }
  }
  // Its copies may still wait for the exchange's queued work.
  first_.reset();
}

void ReplicatedCache::add_table(const TableSpec& spec) {
  Table& table = tables_.emplace_back();
  table.kind = spec.kind;
  const std::string name = "parameter " + spec.name;
  for (const Device& device : devices_) {
    Part& part = table.parts.emplace_back();
    const bool is_first = table.parts.size() == 1;
    if (!is_first)
      part.values = device.backend->allocate_floats(spec.count(), BufferKind::kParameter, name);
    if (spec.kind != TableKind::kFrozen) {
      part.gradient = device.backend->allocate_floats(spec.count(), BufferKind::kGradient,
                                                      "gradient of " + name);
    }
    part.arrived = device.backend->make_event();
    part.used = device.backend->make_event();
  }
}

void ReplicatedCache::compute_on(std::size_t replica, Stream& stream) {
  devices_[replica].compute = &stream;
}

Result<DeviceSpan<const float>> ReplicatedCache::acquire(std::size_t replica, TableId id,
                                                         Clock clock) {
  Table& table = tables_[id.value()];
  const Clock requested = table.kind == TableKind::kFrozen ? Clock(0) : clock;
  if (replica == 0 && table.held != requested) {
    TAUT_TRY(table.values, first_->acquire(0, id, clock));
    spread(table);
    table.held = requested;
  }
  TAUT_CHECK(table.held == requested, "the first replica asks first");
  Part& part = table.parts[replica];
  part.arrived->wait(*devices_[replica].compute);
  return replica == 0 ? table.values : DeviceSpan<const float>(part.values.as<float>());
}

/// Copies the first device's values to the others. The exchange has already waited for their last
/// use, with the gradients that followed it.
void ReplicatedCache::spread(Table& table) {
  std::vector<DeviceSpan<float>> copies;
  for (std::size_t i = 1; i < devices_.size(); ++i) {
    copies.push_back(table.parts[i].values.as<float>());
  }
  group_->spread(table.values, copies);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    table.parts[i].arrived->record(*devices_[i].exchange);
  }
}

/// The previous gradient was averaged before acquire() returned this clock's values.
DeviceSpan<float> ReplicatedCache::gradient(std::size_t replica, TableId id) {
  return tables_[id.value()].parts[replica].gradient.as<float>();
}

void ReplicatedCache::publish(std::size_t replica, TableId id, Clock clock) {
  Table& table = tables_[id.value()];
  Part& part = table.parts[replica];
  part.used->record(*devices_[replica].compute);
  part.used->wait(*devices_[replica].exchange);
  if (++table.published < devices_.size()) return;
  table.published = 0;
  computed_.push_back(id);
  computed_bytes_ = Bytes(computed_bytes_.value() + part.gradient.size().value());
  if (overlap_ && computed_bytes_ >= kTogether) average(clock);
}

/// Averages the gradients that were published since the last call, in one exchange.
void ReplicatedCache::average(Clock clock) {
  std::vector<DeviceGroup::Mean> means;
  for (const TableId id : computed_) {
    DeviceGroup::Mean& one = means.emplace_back();
    for (const Part& part : tables_[id.value()].parts) {
      one.parts.emplace_back(part.gradient.as<float>());
    }
    one.into = first_->gradient(0, id);
  }
  if (!means.empty()) group_->means(means);
  for (const TableId id : std::exchange(computed_, {})) first_->publish(0, id, clock);
  computed_bytes_ = Bytes(0);
}

void ReplicatedCache::finish_clock(std::size_t /*replica*/, Clock clock) {
  if (++finished_ < devices_.size()) return;
  finished_ = 0;
  average(clock);
  first_->finish_clock(0, clock);
}

}  // namespace taut
