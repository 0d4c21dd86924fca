#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/cache/parameter_cache.hpp"
#include "worker/engine/device_group.hpp"

namespace taut {

/// One worker's parameters on several devices. A cache on the first of them exchanges with the
/// server; every other device has a copy of its values. Each device computes a replica
/// on its share of the batch, and the mean of their gradients is the worker's.
///
/// The exchange has a separate stream on every device, in parallel with the compute: a table's
/// gradients are averaged when the last device has computed its own, while backward continues, and
/// the compute waits for single tables only. Small tables are averaged together, in one exchange.
class ReplicatedCache final : public ParameterCache {
 public:
  struct Options {
    GroupOrder order = GroupOrder::kAny;
    bool overlap = true;  // gradients are averaged while the rest of backward still runs
  };

  /// first    a cache on devices[0]
  /// devices  one for each replica, two or more; they outlive the cache
  ReplicatedCache(std::unique_ptr<ParameterCache> first, std::span<Backend* const> devices,
                  std::span<const TableSpec> tables, const Options& options);
  ~ReplicatedCache() override;

  /// How the devices exchange, for the log.
  [[nodiscard]] std::string description() const { return group_->description(); }

  Result<Clock> begin_clock(Clock clock) override { return first_->begin_clock(clock); }
  void compute_on(std::size_t replica, Stream& stream) override;
  /// REQUIRES: at every clock replica 0 calls it before the others.
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table, Clock clock) override;
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override;
  void publish(std::size_t replica, TableId table, Clock clock) override;
  void finish_clock(std::size_t replica, Clock clock) override;
  Result<Clock> snapshot(TableId table, std::span<float> into) override {
    return first_->snapshot(table, into);
  }
  Result<void> flush(Duration wait) override { return first_->flush(wait); }
  std::vector<std::vector<float>> own_state(Clock clock) override {
    return first_->own_state(clock);
  }
  bool restore(std::vector<std::vector<float>> own) override {
    return first_->restore(std::move(own));
  }
  Client::Traffic traffic() const override { return first_->traffic(); }
  Disagreement disagreement() const override { return first_->disagreement(); }
  const StalenessHistogram& staleness() const override { return first_->staleness(); }

 private:
  /// A device, in the order of the replicas.
  struct Device {
    Backend* backend;
    std::unique_ptr<Stream> own_compute;  // until compute_on() names another one
    Stream* compute;
    std::unique_ptr<Stream> exchange;
  };
  /// A table's part of one device.
  struct Part {
    DeviceBuffer values;             // empty on the first device: its cache has them
    DeviceBuffer gradient;           // empty if the table is frozen
    std::unique_ptr<Event> arrived;  // the values are here, and the last gradient has been read
    std::unique_ptr<Event> used;     // the compute has finished with values and gradient
  };
  struct Table {
    TableKind kind;
    std::vector<Part> parts;         // by device
    DeviceSpan<const float> values;  // the first device's, of `held`
    std::optional<Clock> held;       // the clock whose values all devices have
    std::size_t published = 0;       // the number of replicas that have, at this clock
  };
  void add_table(const TableSpec& spec);
  void spread(Table& table);
  void average(Clock clock);

  std::unique_ptr<ParameterCache> first_;
  const bool overlap_;
  std::vector<Device> devices_;
  std::unique_ptr<DeviceGroup> group_;
  std::vector<Table> tables_;
  std::vector<TableId> computed_;  // of this clock, to be averaged together
  Bytes computed_bytes_{0};
  std::size_t finished_ = 0;  // the number of replicas that published all tables of this clock
};

}  // namespace taut
