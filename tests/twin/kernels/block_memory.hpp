#pragma once

#include <cstddef>

namespace taut::twin {

/// The shared memory of the running block: poisoned at its begin; the red zones are looked at when
/// it ends.
void begin_block_memory();
void end_block_memory();
void barrier_of_block_memory();

enum class AccessKind { kRead, kWrite, kAtomic };

/// An access by the running thread, of any memory: reports one of __shared__ memory that races with
/// another thread's since the last barrier. Atomic ones do not race with each other.
/// code  where it is made
void note_access(const void* begin, std::size_t bytes, AccessKind access, const void* code);

}  // namespace taut::twin
