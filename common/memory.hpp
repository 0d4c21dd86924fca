#pragma once

#include "common/types.hpp"

namespace taut {

/// The machine's memory, or what this process's control group may have of it. Thread: any.
[[nodiscard]] Bytes machine_memory();

/// What of the machine's memory could still be had, as the kernel estimates it; 0: it does not say.
/// Thread: any.
[[nodiscard]] Bytes available_memory();

/// Makes the C library keep freed memory instead of giving it back to the kernel. ZeroMQ allocates
/// anew for each frame that it receives; without this every large one is paid for in page faults.
/// Thread    main, before others start
void keep_freed_memory();

}  // namespace taut
