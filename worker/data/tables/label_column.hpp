#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/tables/number_table.hpp"

// Shared by the readers of tables.
namespace taut::data {

/// Parses a number, spaces around it allowed; nullopt for other text, NaN and infinity.
[[nodiscard]] std::optional<float> parse_number(std::string_view text);

/// The role of each column of a file.
struct ColumnRoles {
  std::optional<std::size_t> label;
  std::vector<bool> is_feature;  // by column
  std::uint64_t features = 0;
};

/// names     the columns' names; empty if the file names none
/// count     the number of columns
/// Errors    invalid: a column that does not exist, or no feature is left
[[nodiscard]] Result<ColumnRoles> column_roles(const TableOptions& options,
                                               const std::vector<std::string>& names,
                                               std::size_t count, const std::string& name);

/// Sets a table's labels and classes from the labels as text, one per row.
void set_labels(const std::vector<std::string>& labels, bool as_classes, NumberTable& table);

/// Errors: invalid, more rows x columns than half of the available memory holds.
[[nodiscard]] Result<void> check_table_size(std::uint64_t rows, std::uint64_t columns,
                                            const std::string& name);

}  // namespace taut::data
