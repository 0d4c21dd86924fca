#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/result.hpp"

namespace taut::collective {

/// What a rank trains with, as arrays on the host.
/// Thread    that of the group
class ReplicaValues {
 public:
  virtual ~ReplicaValues() = default;
  /// Gradients, each the sum of all ranks' at every clock: [table] elements.
  [[nodiscard]] virtual std::vector<std::size_t> gradient_sizes() const = 0;
  virtual void read_gradient(std::size_t table, std::span<float> into) = 0;
  virtual void write_gradient(std::size_t table, std::span<const float> mean) = 0;
  /// In place of write_gradient(), at a clock that no rank computed: the table's update becomes one
  /// that adds nothing.
  virtual void write_no_gradient(std::size_t table) = 0;
  /// The parameters of the same tables, if ranks average those instead.
  virtual void read_values(std::size_t table, std::span<float> into) = 0;
  /// before  what read_values() returned at the start of the clock
  /// mixed   the average of these and the neighbours'
  virtual void write_mixed(std::size_t table, std::span<const float> before,
                           std::span<const float> mixed) = 0;
  /// Parameters and the rule's state, which are the same at all ranks if gradients are summed:
  /// [array] elements.
  [[nodiscard]] virtual std::vector<std::size_t> array_sizes() const = 0;
  virtual void read_array(std::size_t array, std::span<float> into) = 0;
  virtual void write_array(std::size_t array, std::span<const float> values) = 0;
  /// Sets the parameters to the job's initial ones, if no rank has trained yet.
  [[nodiscard]] virtual Result<void> begin() = 0;
};

}  // namespace taut::collective
