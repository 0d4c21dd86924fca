#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/types.hpp"

// Which device a process uses, or why it cannot use any: decided from the driver's answers, so that
// every case is tested without a device.
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
  Bytes free{0};  // if the device could be opened
  int multiprocessors = 0;
};

/// The system as the choice sees it.
class Driver {
 public:
  virtual ~Driver() = default;
  /// The newest CUDA version that the driver supports; 0: there is no driver.
  [[nodiscard]] virtual int driver_version() const = 0;
  /// The CUDA version of this build.
  [[nodiscard]] virtual int runtime_version() const = 0;
  /// The versions of the loaded library and of the headers.
  [[nodiscard]] virtual std::size_t cudnn_loaded() const = 0;
  [[nodiscard]] virtual std::size_t cudnn_built() const = 0;
  /// Errors    unavailable: the driver's message
  [[nodiscard]] virtual Result<int> device_count() const = 0;
  [[nodiscard]] virtual Result<DeviceFacts> facts(int index) const = 0;
  /// Opens the device, and returns how many of its bytes are free then.
  /// Errors    unavailable: busy, or no memory left for a context
  [[nodiscard]] virtual Result<Bytes> open(int index) const = 0;
};

/// Opens device `index`.
/// Errors    unavailable: no driver or device, a driver or a cuDNN of another version, a device
///           that is too old or busy; invalid: no device has that index
[[nodiscard]] Result<DeviceFacts> choose_device(const Driver& driver, int index);

}  // namespace taut::cuda
