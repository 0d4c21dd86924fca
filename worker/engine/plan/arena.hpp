#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "worker/engine/backend.hpp"
#include "worker/engine/plan/cycle_trace.hpp"
#include "worker/engine/plan/memory_plan.hpp"

namespace taut {

/// The single block of device memory behind a planned backend, and the host copies of buffers that
/// leave it.
/// Thread    one at a time
class Arena {
 public:
  struct Options {
    Bytes budget;  // the maximum size of the block
    Bytes alignment{256};
    bool poison = false;  // tests: released memory is overwritten
  };

  /// backend  outlives this
  Arena(Backend& backend, const Options& options);

  /// A buffer's copy on the host. Its memory is allocated with the first value: most buffers never
  /// leave the device.
  struct HostCopy {
    HostBuffer memory;
    bool is_current = false;  // the device has no later value
    bool has_value = false;   // it was written at least once
  };
  [[nodiscard]] HostCopy& host_copy(std::size_t buffer);
  /// The host copy with its memory allocated, marked as having a value.
  [[nodiscard]] HostCopy& give_value(std::size_t buffer, Bytes bytes);

  /// Grows the block to at least `bytes`. REQUIRES: its contents are no longer needed.
  void reserve(Bytes bytes);
  [[nodiscard]] std::byte* at(Bytes offset) const;
  [[nodiscard]] Bytes size() const { return block_.size(); }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] Backend& backend() { return backend_; }

  /// Copies between a buffer's host copy and its place on the device.
  void bring(Stream& stream, std::size_t buffer, Bytes bytes, std::byte* to);
  void take_back(Stream& stream, std::size_t buffer, Bytes bytes, const std::byte* from);
  /// Overwrites released memory if the options request it.
  void give_up(Stream& stream, std::byte* address, Bytes bytes);

  [[nodiscard]] Bytes align(Bytes bytes) const;

 private:
  Backend& backend_;
  const Options options_;
  DeviceBuffer block_;
  std::vector<std::unique_ptr<HostCopy>> copies_;  // by buffer
};

}  // namespace taut
