#pragma once

#include <string>
#include <vector>

#include "common/record_shape.hpp"
#include "proto/job.pb.h"
#include "worker/model/job/job.hpp"

namespace taut::cli {

/// The records of a job's data layers, from the heads of their files.
struct JobRecords {
  model::KnownRecords records;
  /// Data layers whose files are missing or are not a data set; likely records are assumed there.
  std::vector<std::string> unknown;
};

[[nodiscard]] JobRecords records_of(const pb::Job& job);

}  // namespace taut::cli
