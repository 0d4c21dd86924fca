#pragma once

#include "tests/bench/data_plane/medians.hpp"
#include "tests/bench/data_plane/options.hpp"

namespace taut::bench {

/// Prints, for one server and one worker through TCP with the first number of I/O threads, which
/// targets are met; those whose size or security was not measured are left out.
/// Returns how many are missed.
[[nodiscard]] int print_targets(const Options& options, const Medians& medians);

}  // namespace taut::bench
