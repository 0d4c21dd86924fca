#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lab/schedule/trace_job.hpp"

namespace taut::schedule {

/// How long each job would take from submission to its end on a cluster that is divided like a
/// fluid: at any time every active job has an equal part of the devices, at most as many as it
/// requests; what it leaves goes to the others; and its speed is in proportion to its part. This is
/// the same for every policy, and so a measure of what a job may expect.
[[nodiscard]] std::vector<double> fair_share_s(std::span<const Job> jobs, std::uint32_t devices);

}  // namespace taut::schedule
