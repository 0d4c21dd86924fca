#pragma once

#include <filesystem>

#include "common/types.hpp"

namespace taut {

/// The machine's memory, or what this process's control group may have of it. Thread: any.
[[nodiscard]] Bytes machine_memory();

/// What of the machine's memory could still be had, as the kernel estimates it, but no more than this
/// process's control group has left, its inactive pages of files counted as left; 0: none, or nobody says.
/// meminfo, group  where Linux says so
/// Thread          any
[[nodiscard]] Bytes available_memory(const std::filesystem::path& meminfo = "/proc/meminfo",
                                     const std::filesystem::path& group = "/sys/fs/cgroup");

/// Makes the C library keep freed memory instead of giving it back to the kernel. ZeroMQ allocates
/// anew for each frame that it receives; without this every large one is paid for in page faults.
/// Thread    main, before others start
void keep_freed_memory();

}  // namespace taut
