#pragma once

#include <cstdint>
#include <span>

#include "common/result.hpp"
#include "common/ssp/table.hpp"

namespace taut {

/// A table's values before the first update: its filler's numbers, or those of the weights file
/// that it starts from. Every process that knows the job computes the same ones, without a shard,
/// whose values other workers may have changed already.
/// into      [count]
/// Errors    not_found, io: the weights file
[[nodiscard]] Result<void> read_initial_values(const TableSpec& table, std::uint64_t seed,
                                               std::span<float> into);

/// As read_initial_values(), for rows of a table that is kept by rows.
/// into      [rows, width], in the order of `rows`
[[nodiscard]] Result<void> read_initial_rows(const TableSpec& table, std::uint64_t seed,
                                             std::span<const std::uint64_t> rows,
                                             std::span<float> into);

}  // namespace taut
