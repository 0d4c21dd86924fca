#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/engine/device_memory.hpp"

namespace taut {

/// A queue of a program's work on a device, as CUDA names it: a cudaStream_t, whatever library of
/// the process made it. Null is the legacy default stream.
using ProgramStream = void*;

/// A copy between a program's memory on a device and the host's, at the place in a stream's work
/// where it is queued. One at a time. Thread: one at a time.
class ProgramCopy {
 public:
  ProgramCopy() = default;
  ProgramCopy(const ProgramCopy&) = delete;
  ProgramCopy& operator=(const ProgramCopy&) = delete;
  /// Waits until the copy is done.
  virtual ~ProgramCopy() = default;

  /// Queues it, after what is queued on the stream so far. REQUIRES: is_done().
  /// Errors    io: the device's, which names the call
  [[nodiscard]] virtual Result<void> to_host(ProgramStream stream, const void* from,
                                             std::span<std::byte> into) = 0;
  [[nodiscard]] virtual Result<void> to_device(ProgramStream stream,
                                               std::span<const std::byte> from, void* into) = 0;
  /// Whether it is done; the host does not wait. True where none was queued.
  /// Errors    io: the device's, perhaps of the program's own work before it
  [[nodiscard]] virtual Result<bool> is_done() = 0;
};

/// A CUDA device on which a program computes by itself, through PyTorch for instance: memory and
/// streams are the program's. Outlives its copies and memory. Thread: any.
class ProgramDevice {
 public:
  ProgramDevice() = default;
  ProgramDevice(const ProgramDevice&) = delete;
  ProgramDevice& operator=(const ProgramDevice&) = delete;
  virtual ~ProgramDevice() = default;

  /// Checks that an address is this device's memory.
  /// Errors    invalid: says what it is instead
  [[nodiscard]] virtual Result<void> check_memory(const void* address) const = 0;
  /// Host memory from and to which copies need no second one.
  /// Errors    io: there is none left
  [[nodiscard]] virtual Result<HostBuffer> allocate_pinned(Bytes size) const = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<ProgramCopy>> make_copy() const = 0;
};

/// Opens a device by CUDA's number of it in this process. Loads the module for it, which contains
/// CUDA's runtime alone, from next to this library or program.
/// Errors    unavailable: no driver, no module, no such device
[[nodiscard]] Result<std::unique_ptr<ProgramDevice>> open_program_device(int index);

}  // namespace taut
