#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/net/buffer_pool.hpp"

namespace taut::server {

/// The numbers of one slice: its values, and as many arrays of the same length (states) as the
/// update rule and the job's policies keep. Readers and checkpoints share this memory; what is
/// shared is never written again: the next application then writes elsewhere.
/// Thread    shard thread
class SliceMemory {
 public:
  /// Unspecified values, and states of zeros.
  /// values, states  the pools of both: values are sent to readers, states never are
  /// Throws std::bad_alloc.
  SliceMemory(std::size_t count, std::size_t state_count, BufferPool& values, BufferPool& states);

  [[nodiscard]] const Buffer& values() const { return values_; }
  [[nodiscard]] const std::vector<Buffer>& states() const { return states_; }

  /// To fill in what the slice starts from, before anything shares it.
  [[nodiscard]] std::span<float> initial_values() { return values_.floats(); }
  /// Takes over copies. REQUIRES: as many numbers and states as this slice has.
  void start_from(const Buffer& values, const std::vector<Buffer>& states);

  /// Where the next values may be written: over the present ones, unless those are shared.
  [[nodiscard]] Buffer output();
  /// A state that may be updated in place: where it is shared, a copy takes its place.
  [[nodiscard]] std::span<float> state(std::size_t index);
  /// Ends an application that wrote into output().
  void set_values(Buffer values);
  /// Memory of the size of the values, for an intermediate result.
  [[nodiscard]] Buffer scratch() { return value_pool_.acquire(values_.size()); }

  /// Allocates now what the next application takes while everything is shared.
  /// Throws std::bad_alloc; nothing is reserved then.
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
