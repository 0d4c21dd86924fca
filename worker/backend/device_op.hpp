#pragma once

#include "common/types.hpp"
#include "worker/backend/device_memory.hpp"

namespace taut {

/// Device memory that an operation needs besides its operands, in whole floats.
struct OpMemory {
  Bytes kept;     // from a forward to its backward: chosen elements, masks, gates
  Bytes scratch;  // within a call
};

/// What all operations have in common.
class DeviceOp {
 public:
  DeviceOp() = default;
  DeviceOp(const DeviceOp&) = delete;
  DeviceOp& operator=(const DeviceOp&) = delete;
  virtual ~DeviceOp() = default;

  [[nodiscard]] virtual OpMemory own_memory() const { return {}; }
  /// Lends it that much: the next call works there. A backward finds in `kept` what its forward left,
  /// perhaps elsewhere. An operation to which nothing was lent has memory of its own.
  virtual void lend(DeviceSpan<float> /*kept*/, DeviceSpan<float> /*scratch*/) {}
};

}  // namespace taut
