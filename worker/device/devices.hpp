#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "worker/engine/backend.hpp"
#include "worker/engine/memory_use.hpp"

namespace taut::worker {

/// Opens the devices that a worker's settings name, and logs the choice. If AUTO finds no CUDA
/// device, each of them is the CPU, so that the batch is still divided as configured.
/// Errors    as make_backend; unavailable: AUTO finds only some of them
[[nodiscard]] Result<std::vector<std::unique_ptr<Backend>>> open_devices(
    const pb::WorkerConfig& settings);

/// A short description of all devices, for the coordinator and its views.
[[nodiscard]] std::string description_of(const std::vector<std::unique_ptr<Backend>>& devices);

/// The memory use of all devices together; nullopt if unknown. Errors: DeviceError.
[[nodiscard]] std::optional<DeviceMemoryUse> memory_use_of(
    const std::vector<std::unique_ptr<Backend>>& devices);

}  // namespace taut::worker
