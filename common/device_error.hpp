#pragma once

#include <stdexcept>

namespace taut {

/// A device failed, or has no memory left: the run cannot continue.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace taut
