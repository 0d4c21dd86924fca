#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::data {

/// One feature of a record.
struct SparseFeature {
  std::uint32_t number = 0;
  float value = 0;  // finite, not 0
};

/// Receives a record. An error ends the reading and is prefixed with the record's place.
using TakeRecord = std::function<Result<void>(float label, std::span<const SparseFeature>)>;

/// Reads a file's records in order, in the format that the layer names; only a part of the file is
/// in memory at a time. A feature with value 0 contributes nothing and is left out.
///
/// LIBSVM   numbers from 1 in the file, from 0 in the record
/// TABLE    an empty field is a feature that the record does not have
/// Errors   not_found, io; invalid, at line and column: text that the format does not allow, a
///          number beyond the layer's `features`; a column that the table lacks; the errors of
///          `take`
[[nodiscard]] Result<void> read_records(const pb::SparseDataParameter& layer,
                                        const std::filesystem::path& path, const TakeRecord& take);

}  // namespace taut::data
