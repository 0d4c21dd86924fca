#pragma once

#include <memory>
#include <vector>

#include "common/result.hpp"
#include "worker/data/image_store.hpp"
#include "worker/data/record_source.hpp"

namespace taut::data {

/// What becomes of a pixel: (pixel - mean) * scale.
struct Transform {
  float scale = 1;
  std::vector<float> mean;  // none, one for all channels, or one for each
};

/// A store's images and labels as a data layer's records: (C, H, W) and a single number.
/// Errors    invalid: means that fit neither all channels nor each, a scale or a mean that is no
///           number
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> image_source(
    std::unique_ptr<ImageStore> store, Transform transform);

}  // namespace taut::data
