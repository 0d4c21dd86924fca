#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/result.hpp"
#include "tests/bench/data_plane/medians.hpp"
#include "tests/bench/data_plane/options.hpp"

namespace taut::bench {

/// Times each size with each plain ZeroMQ program and each variant, one after the other, as many
/// rounds as requested; prints each turn, adds its rows to `report`, and returns them all.
/// cluster  servers x workers: "1x2"
[[nodiscard]] Result<Medians> measure_in_turns(const Options& options, const std::string& cluster,
                                               nlohmann::json& report);

/// Prints the medians of a cluster, next to the plain programs'.
/// memory_model  GB/s of payload that memory allows an applied push
void print_medians(const Options& options, const Medians& medians, double memory_model);

}  // namespace taut::bench
