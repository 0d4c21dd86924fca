#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace taut {

/// A tag of a block of bytes, for use within this process: no other process can find other bytes
/// with the same tag, since it depends on this one's random key. Several times as fast as SHA-256.
/// Source    NIST SP 800-38D, GMAC
using BlockTag = std::array<std::byte, 16>;

/// number    of the block: equal bytes in another block have another tag
/// Thread    any
[[nodiscard]] BlockTag block_tag(std::uint64_t number, std::span<const std::byte> bytes);

}  // namespace taut
