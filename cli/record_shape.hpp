#pragma once

#include <optional>

#include "proto/job.pb.h"
#include "worker/model/graph.hpp"

namespace taut::cli {

/// What a record is taken to be where no data set says it: MNIST's and Fashion-MNIST's.
inline constexpr model::RecordShape kAssumedRecord{.channels = 1, .height = 28, .width = 28};

/// The shape of one image of a job's training data, read from the head of its IDX file; nothing
/// where that is not there or is no such file.
[[nodiscard]] std::optional<model::RecordShape> record_shape_of(const pb::Job& job);

}  // namespace taut::cli
