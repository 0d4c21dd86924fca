#pragma once

#include <stdexcept>

namespace taut {

/// A device that failed, or has no memory left: the run cannot go on.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace taut
