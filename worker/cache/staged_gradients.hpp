#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "worker/engine/backend.hpp"

namespace taut {

/// A clock's gradients on their way to the host from a device with its own memory, in the order in
/// which backward completes them: each is copied while backward continues.
/// Errors    DeviceError
/// Thread    the compute thread
class StagedGradients {
 public:
  /// backend  outlives this
  explicit StagedGradients(Backend& backend)
      : backend_(backend), to_host_(backend.make_copy_stream()) {}
  ~StagedGradients();
  StagedGradients(const StagedGradients&) = delete;
  StagedGradients& operator=(const StagedGradients&) = delete;

  /// Allocates memory for the next table; its index is the number of tables added before.
  void add(std::size_t count);
  /// Queues the copy of a table's gradient after the work that is queued on `compute` now.
  /// REQUIRES  it is not changed before await_next() has returned its index
  void copy(std::size_t table, DeviceSpan<const float> gradient, Stream& compute);
  /// Waits for the copy that was queued first. nullopt if none is under way.
  [[nodiscard]] std::optional<std::size_t> await_next();
  /// The copy of this clock's gradient; empty if it was not copied.
  [[nodiscard]] std::span<const float> gradient(std::size_t table) const;
  /// Starts the next clock.
  void forget();

 private:
  struct Table {
    HostBuffer staged;
    std::unique_ptr<Event> computed;
    std::unique_ptr<Event> copied;
    bool is_copied = false;
  };

  Backend& backend_;
  std::unique_ptr<Stream> to_host_;
  std::vector<Table> tables_;
  std::deque<std::size_t> under_way_;
};

}  // namespace taut
