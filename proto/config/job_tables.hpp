#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "common/ssp/table_shape.hpp"
#include "proto/job.pb.h"

namespace taut {

/// What is wrong with one of the tables of a job's text.
struct TableMisfit {
  int table = 0;      // from 0
  const char* field;  // its name
  std::string what;   // with the table's name, or its index if it has none
};

/// The first of a job's tables that cannot be made, or that cannot be combined with the rest of the
/// job; nullopt if there is none.
[[nodiscard]] std::optional<TableMisfit> misfit_of_tables(const pb::Job& job);

/// The tables that a job's text names, with their initial values' distributions.
/// Errors    invalid: the misfit's line
[[nodiscard]] Result<std::vector<TableSpec>> to_tables(const pb::Job& job);

/// Why a member's table is not the one that the job's text has under its name, with both shapes or
/// both kinds; empty if it is.
[[nodiscard]] std::string difference_from_text(const TableSpec& in_text, const TableSpec& named);

/// Overload for all tables of a member; empty if they are the job's, in its order.
[[nodiscard]] std::string difference_from_text(const std::vector<TableSpec>& in_text,
                                               const std::vector<TableSpec>& named);

}  // namespace taut
