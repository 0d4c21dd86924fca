#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::cuda {

/// Exchanges between the devices of one process with NVIDIA's NCCL, which is loaded on demand:
/// programs are built and run without it.
///
/// An exchange on one device waits for all others' parts, forever if one has failed. The thread
/// that detects this calls give_up(), and all work that waits for the exchange continues, with
/// undefined results.
/// Errors    DeviceError from every exchange
/// Thread    give_up() and has_failed() any; the rest one at a time
class Nccl {
 public:
  /// devices  different devices; the first one is the root of every exchange
  /// Errors    unavailable: NCCL is not found, is older than 2.10, or cannot connect the devices
  [[nodiscard]] static Result<std::unique_ptr<Nccl>> open(std::span<const int> devices);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// "NCCL 2.27.3"
  [[nodiscard]] std::string description() const;

  /// One device's part in an exchange.
  struct Part {
    const float* from = nullptr;
    float* into = nullptr;  // for mean: only the first device's is used
    cudaStream_t stream = nullptr;
  };

  /// The exchange of one table.
  struct Exchange {
    std::vector<Part> parts;  // one for each device
    std::size_t count = 0;    // floats
  };

  /// Copies the first part's `from` to every part's `into`.
  void spread(std::span<const Part> parts, std::size_t count);
  /// Writes the mean over all parts' `from` to the first part's `into`. All exchanges are in one
  /// group, which costs each device one launch.
  void mean(std::span<const Exchange> exchanges);

  /// Whether NCCL has reported an error in pending work; false while a call is under way, which
  /// reports its own errors.
  [[nodiscard]] bool has_failed();
  /// Aborts pending work; from now on every exchange is an error. A call that is under way may hang
  /// on a device that has failed: the wait for it is limited.
  void give_up() noexcept;

 private:
  struct Library;
  struct Communicators;
  Nccl(const Library& library, std::unique_ptr<Communicators> communicators);
  void together(std::span<const Exchange> exchanges, const char* call,
                int (*queue)(const Library&, void*, const Part&, std::size_t));

  const Library& library_;
  std::timed_mutex mutex_;  // guards communicators_
  std::unique_ptr<Communicators> communicators_;
};

}  // namespace taut::cuda
