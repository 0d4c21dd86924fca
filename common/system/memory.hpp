#pragma once

#include <filesystem>

#include "common/types.hpp"

namespace taut {

/// The machine's memory, or the limit of this process's control group. Thread: any.
[[nodiscard]] Bytes machine_memory();

/// The memory that can still be allocated, estimated by the kernel, but at most what this process's
/// control group has left, counting its inactive file pages as free; 0 if none or unknown.
/// meminfo, group  where Linux reports it
/// Thread          any
[[nodiscard]] Bytes available_memory(const std::filesystem::path& meminfo = "/proc/meminfo",
                                     const std::filesystem::path& group = "/sys/fs/cgroup");

/// This process's resident memory; 0: unknown. Thread: any.
[[nodiscard]] Bytes resident_memory();

/// Makes the C library keep freed memory instead of giving it back to the kernel. ZeroMQ allocates
/// a buffer for each received frame; without this, every large one costs page faults.
/// Thread    main, before other threads start
void keep_freed_memory();

}  // namespace taut
