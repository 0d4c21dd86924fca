#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "common/types.hpp"
#include "worker/engine/plan/access.hpp"
#include "worker/engine/stream.hpp"

namespace taut {

/// A part of device memory that one call works on, as the caller named it.
struct Operand {
  std::byte* address = nullptr;
  Bytes size;
  AccessMode mode = AccessMode::kRead;
};

enum class CallKind : std::uint8_t {
  kCompute,
  kCopyToHost,  // copies its only operand; nothing on the device changes
};

/// One call of a backend's operation: its operands, and a function that runs it.
struct DeviceCall {
  std::string_view what;  // "convolution forward"; lives as long as the program
  CallKind kind = CallKind::kCompute;
  std::vector<Operand> operands;
  std::span<const std::byte> host_source;  // of a plain copy to the device
  std::span<std::byte> host_target;        // of a plain copy to the host
  /// Runs it on the wrapped backend's stream at the given addresses, one for each operand.
  std::function<void(Stream& stream, std::span<std::byte* const> addresses)> run;
};

}  // namespace taut
