#pragma once

#include <cstdint>

#include "worker/engine/plan/memory_plan.hpp"

namespace taut::test {

/// The fewest bytes that an iteration can move within the budget, found by trying every way to be
/// in every state: absent, there with a host copy, there without one, for each buffer. Addresses
/// are no matter to it. For four or five buffers.
[[nodiscard]] std::uint64_t fewest_bytes_moved(const AccessTrace& trace, std::uint64_t budget);

}  // namespace taut::test
