#pragma once

#include <string>

#include "tests/bench/data_plane/medians.hpp"
#include "tests/bench/data_plane/options.hpp"

namespace taut::bench {

/// Prints a table of what each variant gave next to plain ZeroMQ programs of depth 10, and, for one
/// server and one worker through TCP with the first numbers of I/O threads and shards, which
/// targets are met; those whose size or security was not measured are left out. Then, for TCP,
/// what a push takes at each end, and how many connections faster links would need by that.
/// Returns how many targets are missed.
[[nodiscard]] int print_table(const Options& options, const std::string& cluster,
                              const Medians& medians);

}  // namespace taut::bench
