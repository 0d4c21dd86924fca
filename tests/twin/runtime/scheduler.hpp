#pragma once

#include <vector>

#include "tests/twin/runtime/lock.hpp"
#include "tests/twin/runtime/operation.hpp"

// When queued work runs. REQUIRES, of all: the lock is held.
namespace taut::twin {

/// Puts work in its order; some of what is queued may run now.
Work queue(Task task, std::vector<Work> after);
/// Runs what the work needs and the work itself, and no more. Where that depends on another thread
/// (an exchange between devices), waits for it.
void wait_for(Lock& lock, const Work& work);
/// Runs all that is queued for a device.
void wait_for_device(Lock& lock, int device);
/// Whether the work is done. Now and then something runs first, so that who asks again and again
/// gets on.
[[nodiscard]] bool poll(const Work& work);
/// What runs now; nullptr: nothing.
[[nodiscard]] const Operation* running();
/// Whether the calling thread runs it.
[[nodiscard]] bool is_running_here();
/// Whether queued work names any of these bytes.
[[nodiscard]] const Operation* pending_use(const void* begin, std::size_t bytes);

}  // namespace taut::twin
