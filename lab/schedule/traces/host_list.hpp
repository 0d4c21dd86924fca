#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/result.hpp"
#include "lab/schedule/cluster.hpp"

namespace taut::schedule {

/// Reads the hosts of Alibaba's cluster, gzipped or not: sn,cpu_milli,memory_mib,gpu,model. Devices
/// of a model whose speed is not known here (A10, G1, G2, G3) count as V100. Nodes without a device
/// are left out; processors and memory are not simulated.
/// rack_hosts  as for parse_cluster()
/// Errors      the file, the line and the column, what is wrong and what is required
/// Source      Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
///             Fragmentation Gradient Descent", ATC 2023
[[nodiscard]] Result<Cluster> read_nodes(const std::filesystem::path& path,
                                         std::uint32_t rack_hosts);

/// As read_nodes(), for a text; errors call it `name`.
[[nodiscard]] Result<Cluster> parse_nodes(const std::string& text, const std::string& name,
                                          std::uint32_t rack_hosts);

}  // namespace taut::schedule
