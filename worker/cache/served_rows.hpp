#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/client/client.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// The rows that a clock's batch names of a table that the servers keep by rows, as the device
/// computes with them. A clock is name(), bring(), the compute, publish(). Rows are on the host
/// until bring(). bring() and publish() wait for a device with its own memory: rows are few.
/// Errors    DeviceError
/// Thread    the compute thread
class ServedRows {
 public:
  /// client, backend  outlive this
  /// spec             the servers'
  /// batch_rows       the most that a batch names
  ServedRows(Client& client, Backend& backend, const TableSpec& spec, std::size_t batch_rows);

  /// The stream of the compute; outlives this.
  void compute_on(Stream& stream) { compute_ = &stream; }

  /// Starts to read the rows that the batch of `clock` names.
  /// rows    ascending, at most batch_rows
  /// Errors  as Client::read_rows
  [[nodiscard]] Result<void> name(Clock clock, std::span<const std::uint64_t> rows);

  /// Waits for them and puts them in front. REQUIRES: they were named for this clock.
  /// wait    the longest silence of a shard that owes an answer
  /// Errors  as Client::wait
  [[nodiscard]] Result<void> bring(Clock clock, Duration wait);
  /// [batch_rows, width]: the rows' values in the order of their numbers, followed by zeros.
  [[nodiscard]] DeviceSpan<const float> front() const { return values_.as<float>(); }

  /// Where the compute writes the gradient, of the same shape.
  [[nodiscard]] DeviceSpan<float> gradient() const { return gradient_.as<float>(); }
  /// Pushes the gradient of the rows that were named.
  void publish(Clock clock);

 private:
  /// Elements to copy for `rows` rows: with planned calls, which never vary, those of all rows.
  [[nodiscard]] std::size_t copied(std::size_t rows) const;

  Client& client_;
  Backend& backend_;
  const TableId table_;
  const std::size_t width_;
  const std::size_t batch_rows_;
  const bool is_shared_;  // device memory is the host's
  std::vector<std::uint64_t> rows_;
  std::optional<Clock> named_;    // the clock whose batch has named them
  std::optional<Clock> brought_;  // the clock whose rows are in front
  std::size_t filled_;            // rows in front that may not be zeros
  DeviceBuffer values_;
  DeviceBuffer gradient_;
  HostBuffer host_values_;  // of a device with its own memory, as is the next
  HostBuffer host_gradient_;
  std::unique_ptr<Stream> own_stream_;  // until compute_on() names another one
  Stream* compute_;
};

}  // namespace taut
