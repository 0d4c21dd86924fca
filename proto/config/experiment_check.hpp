#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"

namespace taut {

/// Priorities range from -kMaxPriority to kMaxPriority.
inline constexpr std::int32_t kMaxPriority = 1000;
/// The parts of a coded checkpoint's files, as many as ReedSolomon allows.
inline constexpr std::uint32_t kMaxDataParts = 32;
inline constexpr std::uint32_t kMaxParityParts = 16;

/// Checks a job's fields for experiments (stragglers, clock time, network), and those that
/// determine how a cluster starts it: its resources, its place in the queue, restarts, followers.
/// Errors   invalid: the field, its value and its range
[[nodiscard]] Result<void> check_experiment(const pb::Job& job);

/// Overload for a worker's own configuration, which names no workers.
/// where    the text before a field's name in a message, e.g. "cluster.textproto: worker."
[[nodiscard]] Result<void> check_experiment(const pb::WorkerConfig& worker,
                                            const std::string& where);

/// Checks that a job starts with no more workers than it has shares of the data.
/// Errors   invalid
[[nodiscard]] Result<void> check_min_workers(const pb::Job& job);

/// Checks a job's settings for checkpoints.
/// Errors   invalid: numbers of parts out of their ranges; settings that cannot be combined
[[nodiscard]] Result<void> check_checkpoints(const pb::Job& job);

/// Parses a straggler from a command line: text protobuf, e.g. "worker: 3 slowdown: 3".
/// option   denotes the text in a message
/// Errors   invalid: with its line and column
[[nodiscard]] Result<pb::Straggler> parse_straggler(const std::string& text,
                                                    const std::string& option);

}  // namespace taut
