#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "worker/backend/backend.hpp"
#include "worker/backend/memory_use.hpp"

namespace taut::worker {

/// Opens the devices that a worker's settings name, and says in the log what was chosen. Where AUTO finds
/// no CUDA device, each of them is the CPU, so that the batch is divided as asked.
/// Errors    as make_backend; unavailable: AUTO finds some of them and not all
[[nodiscard]] Result<std::vector<std::unique_ptr<Backend>>> open_devices(
    const pb::WorkerConfig& settings);

/// All devices in a few words, for the coordinator and its views.
[[nodiscard]] std::string description_of(const std::vector<std::unique_ptr<Backend>>& devices);

/// Of all devices together; nothing where they cannot tell. Errors: DeviceError.
[[nodiscard]] std::optional<DeviceMemoryUse> memory_use_of(
    const std::vector<std::unique_ptr<Backend>>& devices);

}  // namespace taut::worker
