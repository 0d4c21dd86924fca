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

/// Payload bytes a second from this worker to its job's servers, one after the other, each over one
/// connection: as far as they can be reached, with 16 MiB or for two seconds each. A server divides
/// its link among workers that measure at the same time, so the sum over all of them is what it
/// receives. 0: none could be reached.
/// shares_memory  with servers of this machine, which count as fast as this machine copies
/// given_up       set by another thread: ends soon
[[nodiscard]] double measure_bandwidth(ZmqContext& context, const pb::WorkerJob& job,
                                       bool shares_memory, const std::atomic<bool>& given_up);

/// The seconds of a clock's forward and backward, with a separate net and batches that are dropped
/// afterwards; the median of three after a first one. Throws DeviceError.
/// Errors    those of the job's data
[[nodiscard]] Result<double> measure_compute(const pb::WorkerJob& job, const JobAssets& assets,
                                             Backend& device);

/// Bytes and seconds of each candidate of the job's compression, for an update and a read of all
/// tables. What an update's `decode_s` has is its share of a shard's sum, also in float32. Each
/// encoding is timed on a slice of the first table that has it.
[[nodiscard]] Result<void> measure_codecs(const pb::Job& job, std::span<const TableSpec> tables,
                                          pb::CompressionCosts& costs);

}  // namespace taut::worker
