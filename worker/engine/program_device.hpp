#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/engine/device_memory.hpp"

namespace taut {

/// A queue of a program's work on a device: a cudaStream_t, whichever library of the process
/// created it. Null is the legacy default stream.
using ProgramStream = void*;

/// A copy between a program's memory on a device and the host's, in order with a stream's other
/// work. One copy at a time. Thread: one at a time.
class ProgramCopy {
 public:
  ProgramCopy() = default;
  ProgramCopy(const ProgramCopy&) = delete;
  ProgramCopy& operator=(const ProgramCopy&) = delete;
  /// Waits until the copy is done.
  virtual ~ProgramCopy() = default;

  /// Queues the copy after the work queued on the stream so far. REQUIRES: is_done().
  /// Errors    io: the device's error; names the call
  [[nodiscard]] virtual Result<void> to_host(ProgramStream stream, const void* from,
                                             std::span<std::byte> into) = 0;
  [[nodiscard]] virtual Result<void> to_device(ProgramStream stream,
                                               std::span<const std::byte> from, void* into) = 0;
  /// Whether the copy is done; the host does not wait. True if none was queued.
  /// Errors    io: the device's error, perhaps from the program's own earlier work
  [[nodiscard]] virtual Result<bool> is_done() = 0;
};

/// A CUDA device on which a program does its own computing, through PyTorch for instance: memory
/// and streams are the program's. Outlives its copies and memory. Thread: any.
class ProgramDevice {
 public:
  ProgramDevice() = default;
  ProgramDevice(const ProgramDevice&) = delete;
  ProgramDevice& operator=(const ProgramDevice&) = delete;
  virtual ~ProgramDevice() = default;

  /// Checks that an address is this device's memory.
  /// Errors    invalid: it is not; says what it is
  [[nodiscard]] virtual Result<void> check_memory(const void* address) const = 0;
  /// Host memory from and to which copies need no intermediate copy.
  /// Errors    io: no such memory is left
  [[nodiscard]] virtual Result<HostBuffer> allocate_pinned(Bytes size) const = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<ProgramCopy>> make_copy() const = 0;
};

/// Opens a device by its CUDA number in this process. Loads the module for it, which contains only
/// CUDA's runtime, from the folder of this library or program.
/// Errors    unavailable: no driver, no module, no such device
[[nodiscard]] Result<std::unique_ptr<ProgramDevice>> open_program_device(int index);

}  // namespace taut
