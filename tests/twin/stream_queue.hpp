#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the twin's libraries (cuBLASLt, cuDNN, NCCL) use of its runtime: work is queued on streams,
// device memory is requested, and whatever breaks a documented rule is reported.
// Rules whose breach the documentation answers with a status are answered with that status. Where
// it leaves the behaviour undefined, report_violation() ends the process.
namespace taut::twin {

/// Bytes that queued work reads, or reads and writes.
struct Access {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool is_write = false;
};

/// Queues work on a stream (nullptr: the legacy default stream); it runs as late as the twin's
/// scheduler likes, before whatever waits for it. Under capture it becomes a graph node, whose
/// `run` is called at each replay, so it keeps its arguments by value.
/// what      for reports: "cublasLtMatmul 64x10x500"
/// accesses  all device memory that `run` touches; other device memory can't be touched while it
///           runs
/// run       calls nothing of CUDA and takes no lock that a caller of CUDA may hold
/// may_run   asked before `run`; false: not yet, other streams' work goes first. See wake().
/// part      kBefore: a call's first piece of work, which counts leave out
/// Thread    any
enum class CallPart : std::uint8_t { kBefore, kMain };
void enqueue(cudaStream_t stream, std::string what, std::vector<Access> accesses,
             std::function<void()> run, std::function<bool()> may_run = {},
             CallPart part = CallPart::kMain);
/// Something that a may_run depends on has changed.
void wake();
/// Runs all that is queued on a stream. For calls that the documentation calls synchronous.
/// Errors    the device's sticky error
cudaError_t finish(cudaStream_t stream);

/// A rule of RULES.md was broken: prints the rule, the details and the call's place, and ends the
/// process.
[[noreturn]] void report_violation(std::string_view rule, const std::string& details);

/// Whether all bytes are in one live allocation of device memory.
[[nodiscard]] bool is_device_memory(const void* begin, std::size_t bytes);
struct Allocation {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  int device = 0;
};
/// The live allocation that holds an address.
[[nodiscard]] std::optional<Allocation> allocation_of(const void* address);
/// Reports unless all bytes are in one live allocation of the device and start at a multiple of
/// `alignment`.
void require_device_memory(std::string_view call, std::string_view operand, int device,
                           const void* begin, std::size_t bytes, std::size_t alignment = 1);
/// Memory that a library takes for itself; nullptr where none is left. Released at the call's end
/// or with the handle.
[[nodiscard]] void* allocate_device_memory(int device, std::size_t bytes, std::string owner);
void release_device_memory(void* begin);
/// Overwrites with what no program counts on. For workspaces after use, within an Access that is
/// written.
void poison(void* begin, std::size_t bytes);

/// The calling thread's device.
[[nodiscard]] int current_device();
[[nodiscard]] int device_count();
/// The device that a stream was made on; of nullptr the calling thread's.
[[nodiscard]] int device_of(cudaStream_t stream);
/// Reports a stream that does not exist, or no longer.
void require_stream(std::string_view call, cudaStream_t stream);
[[nodiscard]] bool is_capturing(cudaStream_t stream);
/// Of a call that allocates, synchronizes or otherwise may not be made while the calling thread
/// (or, in the global mode, any) captures: false where that is so, and the capture is then invalid.
[[nodiscard]] bool may_call_unsafely(std::string_view call);

/// What a call is to fail with, as the test's order says. Each entry of a library asks once, first.
struct Fault {
  enum Kind {
    kNone,
    kRefused,      // this call alone; nothing was done
    kOutOfMemory,  // this call alone, where it allocates; else as kRefused
    kDeviceLost,   // the device's sticky error from now on
  };
  Kind kind = kNone;
  bool hangs = false;  // of an exchange: it does not return before it is aborted
};
[[nodiscard]] Fault next_fault(std::string_view call);
/// The device's sticky error from now on, as work that fails while it runs leaves it.
void fail_device(int device, cudaError_t status);
/// cudaSuccess, or the device's sticky error.
[[nodiscard]] cudaError_t device_status(int device);

/// A number in [0, bound) that the seed decides (TAUTLINE_TWIN_SEED), not the time or the thread.
/// purpose  calls of one purpose draw from one sequence
[[nodiscard]] std::uint64_t random_number(std::string_view purpose, std::uint64_t bound);

}  // namespace taut::twin
