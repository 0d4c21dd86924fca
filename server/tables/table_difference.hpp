#pragma once

#include <string>
#include <vector>

#include "common/ssp/table.hpp"

namespace taut::server {

/// The first difference between the tables that a job has open and those that a worker names;
/// empty if there is none.
[[nodiscard]] std::string difference(const std::vector<TableSpec>& ours,
                                     const std::vector<TableSpec>& theirs);

/// Why tables cannot start from those of a checkpoint; empty if they can. How they learn may
/// differ.
[[nodiscard]] std::string resume_difference(const std::vector<TableSpec>& saved,
                                            const std::vector<TableSpec>& requested);

}  // namespace taut::server
