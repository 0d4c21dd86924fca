#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/types.hpp"

// Which device a process works on, and why it cannot: decided on what a driver says, so that every
// answer is tested without one.
namespace taut::cuda {

/// 13000 is CUDA 13.0, 12040 is 12.4.
[[nodiscard]] std::string version_text(int version);
/// cuDNN's own numbering: 91900 is 9.19.0.
[[nodiscard]] std::string cudnn_version_text(std::size_t version);

struct DeviceFacts {
  std::string name;
  int major = 0;  // of the compute capability
  int minor = 0;
  Bytes memory{0};
  Bytes free{0};  // where the device could be opened
  int multiprocessors = 0;
};

/// What the choice asks of the system.
class Driver {
 public:
  virtual ~Driver() = default;
  /// The newest CUDA that the driver knows; 0: there is no driver.
  [[nodiscard]] virtual int driver_version() const = 0;
  /// The CUDA that this build was made with.
  [[nodiscard]] virtual int runtime_version() const = 0;
  /// Of the library that was loaded, and of the headers.
  [[nodiscard]] virtual std::size_t cudnn_loaded() const = 0;
  [[nodiscard]] virtual std::size_t cudnn_built() const = 0;
  /// Errors    unavailable: what the driver says
  [[nodiscard]] virtual Result<int> device_count() const = 0;
  [[nodiscard]] virtual Result<DeviceFacts> facts(int index) const = 0;
  /// Takes the device into use, and how many of its bytes are free then.
  /// Errors    unavailable: busy, or no memory left for a context
  [[nodiscard]] virtual Result<Bytes> open(int index) const = 0;
};

/// Takes device `index` into use.
/// Errors    unavailable: no driver or device, a driver or a cuDNN of another version, a device
///           that is too old or busy; invalid: no device has that index
[[nodiscard]] Result<DeviceFacts> choose_device(const Driver& driver, int index);

}  // namespace taut::cuda
