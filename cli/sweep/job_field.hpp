#pragma once

#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

// A field of a job is named by its path, e.g. "solver.base_lr": `solver` and `net` are the contents
// of the files that a job names. An element of a list is named or counted from 0:
// "net.layer[conv1].convolution_param.num_output", "solver.stepvalue[1]".

/// The kind of a field's values.
enum class FieldKind { kWord, kNumber, kWholeNumber };

/// Errors    invalid: no such field, with a guess; a path that ends at a message
[[nodiscard]] Result<FieldKind> job_field_kind(const std::string& path, const pb::Job& job);

/// Sets a field to a value as it appears in a file, words without quotes. A list of plain values
/// that is named without an element becomes this value alone.
/// Errors    invalid: as job_field_kind(); a value that the field cannot have
[[nodiscard]] Result<void> set_job_field(const std::string& path, const std::string& value,
                                         pb::Job& job);

}  // namespace taut::cli
