#pragma once

#include <memory>
#include <string>

#include "common/result.hpp"
#include "worker/data/images/image_store.hpp"
#include "worker/data/record_source.hpp"
#include "worker/data/transform.hpp"

namespace taut::data {

/// A store's images and labels as a data layer's records: (C, H, W) and a single number.
/// name      the data's name in messages
/// Errors    as ImageTransform::create
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> image_source(
    std::unique_ptr<ImageStore> store, Transform transform, std::string name);

}  // namespace taut::data
