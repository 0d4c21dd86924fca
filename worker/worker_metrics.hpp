#pragma once

#include <cstdint>
#include <string>

#include "common/metrics/metrics.hpp"
#include "proto/control.pb.h"
#include "worker/backend/memory_use.hpp"
#include "worker/client/client_load.hpp"

namespace taut::worker {

/// What a worker's newest report says; nothing where it has none.
void add_progress(metrics::Scrape& scrape, const std::string& worker, const pb::Progress& progress);
/// How much of the device's memory is taken.
/// budget    device_memory_budget; 0: none is set
void add_device(metrics::Scrape& scrape, const std::string& worker, const DeviceMemoryUse& use,
                Bytes budget);
/// What the client of a job does.
void add_client(metrics::Scrape& scrape, const std::string& worker, std::uint64_t job,
                const ClientFigures& figures);

}  // namespace taut::worker
