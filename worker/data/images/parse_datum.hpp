#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/result.hpp"
#include "worker/data/images/image_store.hpp"

namespace taut::data {

/// The image in a serialized Caffe Datum. An encoded one is decoded.
/// name      of the record, for messages
/// Errors    invalid: no Datum, extents that do not fit its data, data of two kinds or of none, an
///           encoded image that cannot be decoded
[[nodiscard]] Result<StoredImage> parse_datum(std::span<const std::uint8_t> bytes,
                                              const std::string& name, Colour colour);

}  // namespace taut::data
