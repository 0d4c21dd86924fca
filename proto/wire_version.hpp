#pragma once

#include <cstdint>
#include <string>

#include "common/net/message.hpp"
#include "common/result.hpp"

namespace taut {

/// Incremented by every change that an older peer would misread; docs/WIRE.md has the rule.
inline constexpr std::uint16_t kWireVersion = 16;

/// The name of this build, for users: version and compiler.
[[nodiscard]] std::string build_name();
/// The version alone, e.g. "0.1.0".
[[nodiscard]] std::string release_version();

enum class Plane : char { kData = 'D', kControl = 'C', kPeers = 'P' };

/// The prefix of every header: "TAUT", the plane, 0, the wire version.
inline constexpr std::size_t kPrefixBytes = 8;

void append_prefix(Plane plane, std::string& out);

/// The sender's wire version. Errors: invalid (too short, no prefix, the other plane).
[[nodiscard]] Result<std::uint16_t> read_prefix(Plane plane, const Frame& header);

/// The line that both sides of a refused hello print.
[[nodiscard]] std::string wire_mismatch(std::uint32_t ours, const std::string& our_build,
                                        std::uint32_t theirs, const std::string& their_build);

}  // namespace taut
