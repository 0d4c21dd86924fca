#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::data {

/// A feature that a record has.
struct SparseFeature {
  std::uint32_t number = 0;
  float value = 0;  // finite, not 0
};

/// Takes a record. Errors: those end the reading, and get the record's place.
using TakeRecord = std::function<Result<void>(float label, std::span<const SparseFeature>)>;

/// Reads a file's records in their order, by the format that the layer names; of the file only a
/// part is in memory. A feature whose value is 0 adds nothing and is left out.
///
/// LIBSVM   numbers from 1 in the file, from 0 in the record
/// TABLE    an empty field is a feature that the record does not have
/// Errors   not_found, io; invalid, at line and column: text that the format does not have, a
///          number beyond the layer's `features`; a column that the table lacks; what `take`
///          refuses
[[nodiscard]] Result<void> read_records(const pb::SparseDataParameter& layer,
                                        const std::filesystem::path& path, const TakeRecord& take);

}  // namespace taut::data
