#pragma once

#include <cstdint>
#include <string>

#include "common/metrics/metrics.hpp"
#include "proto/control.pb.h"
#include "worker/client/client_load.hpp"
#include "worker/engine/memory_use.hpp"

namespace taut::worker {

/// Adds a worker's newest report, if any.
void add_progress(metrics::Scrape& scrape, const std::string& worker, const pb::Progress& progress);
/// Adds the device's memory use.
/// budget    device_memory_budget; 0 if not set
void add_device(metrics::Scrape& scrape, const std::string& worker, const DeviceMemoryUse& use,
                Bytes budget);
/// Adds the figures of a job's client.
void add_client(metrics::Scrape& scrape, const std::string& worker, std::uint64_t job,
                const ClientFigures& figures);

}  // namespace taut::worker
