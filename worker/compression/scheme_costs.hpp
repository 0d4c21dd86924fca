#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/control.pb.h"
#include "worker/engine/backend.hpp"
#include "worker/replica.hpp"

namespace taut::worker {

/// Payload bytes per second from this worker to its job's reachable servers, measured one after the
/// other over one connection each, with 16 MiB or for two seconds. A server divides its link among
/// workers that measure at the same time, so the sum over all of them is what it receives. 0 if no
/// server could be reached.
/// shares_memory  servers on this machine share memory: they count as fast as this machine copies
/// given_up       set by another thread to end the measurement early
[[nodiscard]] double measure_bandwidth(ZmqContext& context, const pb::WorkerJob& job,
                                       bool shares_memory, const std::atomic<bool>& given_up);

/// Seconds for a clock's forward and backward, with a separate net and batches that are dropped
/// afterwards; the median of three after an uncounted first one. Throws DeviceError.
/// Errors    those of the job's data
[[nodiscard]] Result<double> measure_compute(const pb::WorkerJob& job, const JobAssets& assets,
                                             Backend& device);

/// Bytes and seconds of each candidate of the job's compression, for an update and a read of all
/// tables. An update's `decode_s` is its share of the time of a shard's sum, also for float32. Each
/// encoding is timed on a slice of the first table that uses it.
[[nodiscard]] Result<void> measure_codecs(const pb::Job& job, std::span<const TableSpec> tables,
                                          pb::CompressionCosts& costs);

}  // namespace taut::worker
