#pragma once

#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"

namespace taut {

/// Replaces a member's table with the one that the job's text has under its name.
/// in_text  empty: members name the tables, and any will do
/// Errors   mismatch: the text has none of that name, or one of another shape or kind
[[nodiscard]] Result<void> match(const std::vector<TableSpec>& in_text, TableSpec& table);

/// Matched tables in the order in which every member names them to the servers.
/// Errors   mismatch: names a table that the text has and the member lacks
[[nodiscard]] Result<std::vector<TableSpec>> in_order(const std::vector<TableSpec>& in_text,
                                                      std::vector<TableSpec> tables);

}  // namespace taut
