#pragma once

#include <cstdint>
#include <vector>

#include "common/math/filler.hpp"
#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut {

/// The distribution of a filler for a parameter of this shape. Fans as in Caffe: in = count /
/// shape[0], out = count / shape[1] (count if there is one axis).
/// Errors    invalid: unknown type (lists the known ones), impossible bounds or deviations
/// Source    Caffe, filler.hpp
[[nodiscard]] Result<math::Filler> settle_filler(const pb::FillerParameter& filler,
                                                 const std::vector<std::int64_t>& shape);

}  // namespace taut
