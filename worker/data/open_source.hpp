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
/// Errors    not_found: says how to get the data; invalid: files, or a transform_param of the
///           layer, that cannot be used
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> open_source(
    const pb::LayerParameter& layer, const SourcePlace& place, Part part);

/// The records' shape, from the files' heads alone if they suffice; nullopt if the data does not
/// exist or cannot be read.
[[nodiscard]] std::optional<RecordShape> peek_fields(const pb::LayerParameter& layer,
                                                     const SourcePlace& place, Part part);

}  // namespace taut::data
