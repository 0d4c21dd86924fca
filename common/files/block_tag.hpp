#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace taut {

/// A tag of a block of bytes, for this process alone: no other can find other bytes that have it,
/// since it depends on a key that the process draws. Several times as fast as SHA-256.
/// Source    NIST SP 800-38D, GMAC
using BlockTag = std::array<std::byte, 16>;

/// number    of the block: equal bytes elsewhere have another tag
/// Thread    any
[[nodiscard]] BlockTag block_tag(std::uint64_t number, std::span<const std::byte> bytes);

}  // namespace taut
