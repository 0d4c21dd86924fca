#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "proto/net.pb.h"
#include "worker/data/record_source.hpp"

namespace taut::data {

/// Where a data layer's records are: a folder (or a database), or two files.
struct SourcePlace {
  std::string folder;
  std::string images;
  std::string labels;
};

/// Opens the records of a data layer, transformed according to the layer.
/// Errors    not_found: with the way to get the data; invalid: what the files or the layer's
///           transform_param cannot mean
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> open_source(
    const pb::LayerParameter& layer, const SourcePlace& place, Part part);

/// What the records hold, from the files' heads alone where that is enough; nothing where the data
/// does not exist or cannot be read.
[[nodiscard]] std::optional<RecordShape> peek_fields(const pb::LayerParameter& layer,
                                                     const SourcePlace& place, Part part);

}  // namespace taut::data
