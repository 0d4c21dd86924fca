#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "lab/schedule/models.hpp"
#include "lab/training/costs/scaling.hpp"

namespace taut::cli {

/// Types of devices by the names of the cluster file's kinds of hosts.
using HostTypes = std::map<std::string, schedule::DeviceType>;

/// Checks "node=V100": empty, or what is wrong with it.
[[nodiscard]] std::string check_host_type(const std::string& text);

/// The types of the hosts that have workers, from `given` or from their names.
/// given     checked by check_host_type()
/// Errors    the file, line and column of a host whose type is unknown; a name in `given` that no
///           such host has
[[nodiscard]] Result<HostTypes> host_types(const std::vector<std::string>& given,
                                           const pb::LabCluster& cluster,
                                           const std::string& cluster_file);

/// Plans the job on each kind of host alone, and writes the rates for `tautline lab schedule`.
/// Returns how many there are.
[[nodiscard]] Result<std::size_t> write_throughput(const lab::ScalingOptions& options,
                                                   const HostTypes& types, const std::string& file);

}  // namespace taut::cli
