#pragma once

#include <cstddef>

#include "common/types.hpp"
#include "worker/engine/device_memory.hpp"

// The base of operations, and how an interface declares what a call does with its operands. A
// wrapper (worker/engine/plan/wrapped_op.hpp) reads these declarations from the methods' types, so
// that no other place lists an operation's operands:
//
//   DeviceSpan<const float>     read
//   DeviceSpan<float>           overwritten as a whole
//   Updated                     read, then overwritten in place
//   ReadIf, ReadFor             read by some specs or calls only
//
// An empty operand is absent. Methods named forward... produce what an operation keeps, and methods
// named backward... use it. A call with no non-empty written operand has no effect.
namespace taut {

/// An operand that a call reads and then overwrites in place.
class Updated : public DeviceSpan<float> {
 public:
  using DeviceSpan::DeviceSpan;
  Updated(DeviceSpan<float> span) : DeviceSpan(span) {}
};

/// An operand that a call may leave unread; it then need not hold its value.
class MaybeRead : public DeviceSpan<const float> {
 public:
  using DeviceSpan::DeviceSpan;
  MaybeRead(DeviceSpan<const float> span) : DeviceSpan(span) {}
  MaybeRead(DeviceSpan<float> span) : DeviceSpan(span) {}
};

/// Read if the operation's spec requires it.
/// kMember  a bool of the spec, or a function of it that returns one
template <auto kMember>
class ReadIf : public MaybeRead {
 public:
  using MaybeRead::MaybeRead;
};

/// Read only to compute another, written operand of the same call: not read if that one is empty.
/// kOther  that operand's index among the call's operands after the stream
template <std::size_t kOther>
class ReadFor : public MaybeRead {
 public:
  using MaybeRead::MaybeRead;
};

/// Device memory that an operation needs in addition to its operands, in whole floats.
struct OpMemory {
  Bytes kept;     // from a forward to its backward: chosen elements, masks, gates
  Bytes scratch;  // within a call
};

/// The base of all operations. Each has a constant kName for messages, e.g. "pooling".
class DeviceOp {
 public:
  DeviceOp() = default;
  DeviceOp(const DeviceOp&) = delete;
  DeviceOp& operator=(const DeviceOp&) = delete;
  virtual ~DeviceOp() = default;

  [[nodiscard]] virtual OpMemory own_memory() const { return {}; }
  /// Lends the memory of own_memory() for the next call. A backward finds in `kept` the contents
  /// that its forward left, possibly at another address. If the operation's interface has
  /// kLeavesScratch, a backward_bottom() finds in `scratch` what a backward_parameters() directly
  /// before it left. Without lent memory an operation allocates its own.
  virtual void lend(DeviceSpan<float> /*kept*/, DeviceSpan<float> /*scratch*/) {}
};

}  // namespace taut
