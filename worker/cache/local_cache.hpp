#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/math/update_rule.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// Parameters of one process without a server: every clock ends with one application of all
/// replicas' gradients, summed in replica order, as a shard does in BSP. The baseline for speed
/// and for exact results. Values, gradients and the rule's state stay on the device.
class LocalCache final : public ParameterCache {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::size_t replicas = 1;
    math::UpdateRule rule;
    bool sum = false;  // sum gradients instead of dividing by the replicas
    Bytes budget{0};   // limit on the backend's device memory; 0: none
  };

  LocalCache(Backend& backend, std::vector<TableSpec> tables, Options options);

  /// Initializes tables that have an origin from their files. Errors: as TensorFile.
  [[nodiscard]] Result<void> read_origins();

  /// A table's values between two clocks; both wait for the stream.
  void read(TableId table, std::span<float> into);
  void write(TableId table, std::span<const float> values);

  /// A replica's gradient of a table, as read() and write().
  void read_gradient(std::size_t replica, TableId table, std::span<float> into);
  void write_gradient(std::size_t replica, TableId table, std::span<const float> values);

  /// Sets the clock at which the rule's state is zero: some rules count their applications from
  /// there. The default is clock 0; it is negative if the rule has been applied more often than the
  /// job has had clocks.
  void begin_state(Clock clock) { state_from_ = clock; }

  /// One of the arrays that the rule keeps of a table, as read() and write().
  void read_state(TableId table, std::size_t array, std::span<float> into);
  void write_state(TableId table, std::size_t array, std::span<const float> values);

  /// The arrays that the rule keeps of a table, [count] each; both wait for the stream.
  [[nodiscard]] std::vector<std::vector<float>> read_state(TableId table);
  /// REQUIRES: as many arrays as the rule keeps, [count] each.
  void write_state(TableId table, const std::vector<std::vector<float>>& state);

  void compute_on(std::size_t /*replica*/, Stream& stream) override { stream_ = &stream; }
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table, Clock clock) override;
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override;
  void publish(std::size_t replica, TableId table, Clock clock) override;
  void finish_clock(std::size_t replica, Clock clock) override;
  Result<Clock> snapshot(TableId table, std::span<float> into) override;
  Result<void> flush(Duration /*wait*/) override { return ok(); }
  const StalenessHistogram& staleness() const override { return staleness_; }

 private:
  struct Table {
    TableSpec spec;
    DeviceBuffer values;
    std::vector<DeviceBuffer> gradients;           // by replica
    std::size_t piece = 0;                         // elements that are updated together
    std::vector<std::vector<DeviceBuffer>> state;  // of each piece
  };
  void fill_values(const Table& table);
  [[nodiscard]] Result<void> write_values(
      const Table& table, const std::function<Result<void>(std::span<float>)>& write);
  [[nodiscard]] std::size_t piece_of(std::size_t count) const;
  void add_state(Table& table, const std::string& name);
  [[nodiscard]] std::vector<float> gradient_norms();
  [[nodiscard]] double squares_of(const DeviceBuffer& buffer);
  void apply(Table& table, Clock clock, const std::vector<float>& norms);
  void descend(Table& table, Clock clock, const std::vector<DeviceGradient>& gradients);

  Backend& backend_;
  const Options options_;
  std::unique_ptr<Stream> own_stream_;  // until compute_on() names another one
  Stream* stream_;
  std::vector<Table> tables_;
  std::vector<TableUpdate> updates_;    // of this clock, until its end
  std::vector<TableAverage> averages_;  // of running statistics, until the clock's end
  Clock clock_;
  Clock state_from_;
  StalenessHistogram staleness_;
};

}  // namespace taut
