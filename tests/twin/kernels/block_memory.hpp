#pragma once

namespace taut::twin {

/// The shared memory of the running block: poisoned at its begin; the red zones are looked at when
/// it ends.
void begin_block_memory();
void end_block_memory();
void barrier_of_block_memory();

}  // namespace taut::twin
