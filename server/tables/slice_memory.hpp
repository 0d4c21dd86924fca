#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/net/buffer_pool.hpp"

namespace taut::server {

/// The memory of one slice: its values, and the arrays of the same length (states) that the update
/// rule and the job's policies keep. Readers and checkpoints share this memory; what is shared is
/// never written again: the next application then writes elsewhere.
/// Thread    shard thread
class SliceMemory {
 public:
  /// Creates unspecified values, and states of zeros.
  /// values, states  the pools of both: values are sent to readers, states never are
  /// Throws std::bad_alloc.
  SliceMemory(std::size_t count, std::size_t state_count, BufferPool& values, BufferPool& states);

  [[nodiscard]] const Buffer& values() const { return values_; }
  [[nodiscard]] const std::vector<Buffer>& states() const { return states_; }

  /// The values, to be filled in before anything shares them.
  [[nodiscard]] std::span<float> initial_values() { return values_.floats(); }
  /// Copies values and states. REQUIRES: as many of both as this slice has.
  void start_from(const Buffer& values, const std::vector<Buffer>& states);

  /// The buffer for the next values: that of the present ones, unless it is shared.
  [[nodiscard]] Buffer output();
  /// A state that may be updated in place: if it is shared, a copy replaces it.
  [[nodiscard]] std::span<float> state(std::size_t index);
  /// Ends an application that wrote into output().
  void set_values(Buffer values);
  /// Memory of the size of the values, for an intermediate result.
  [[nodiscard]] Buffer scratch() { return value_pool_.acquire(values_.size()); }

  /// Allocates now what the next application needs while everything is shared.
  /// Throws std::bad_alloc and then reserves nothing.
  void reserve();

 private:
  void drop_reserve();

  BufferPool& value_pool_;
  BufferPool& state_pool_;
  Buffer values_;
  std::vector<Buffer> states_;
  Buffer reserved_values_;
  std::vector<Buffer> reserved_states_;
};

}  // namespace taut::server
