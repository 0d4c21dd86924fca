#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/result.hpp"

namespace taut::model {

/// The matrix of an InfogainLoss in Caffe's binaryproto: a BlobProto of 1 x 1 x classes x classes
/// floats. Returns it row by row.
/// Errors    not_found; invalid: no BlobProto, a different number of classes, a number that is not
///           finite
[[nodiscard]] Result<std::vector<float>> read_infogain(const std::filesystem::path& path,
                                                       std::int64_t classes);

}  // namespace taut::model
