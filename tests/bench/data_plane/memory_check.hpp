#pragma once

#include <nlohmann/json.hpp>

#include "common/result.hpp"
#include "tests/bench/data_plane/options.hpp"

namespace taut::bench {

/// The maximum of private memory of servers and workers in a training, with each transport and the
/// first security, compared with what the design allows them. Prints it and adds it to `report`.
/// Returns whether all of it is within its limit.
[[nodiscard]] Result<bool> check_memory_use(const Options& options, nlohmann::json& report);

}  // namespace taut::bench
