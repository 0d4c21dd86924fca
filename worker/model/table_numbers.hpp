#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "worker/model/read_table.hpp"

// Tensors for other programs, with the numbers of a graph's tables in another order.
namespace taut::model {

/// Reads elements [first, first + out.size()) of a tensor that is computed from tables.
using TableNumbers =
    std::function<Result<void>(const ReadTable& read, std::uint64_t first, std::span<float> out)>;

/// A table without changes.
[[nodiscard]] TableNumbers whole_table(std::size_t table);

/// A table's blocks of `block` elements in another order.
/// order  [blocks]: for each block, its number in the table
[[nodiscard]] TableNumbers in_blocks(std::size_t table, std::uint64_t block,
                                     std::vector<std::size_t> order);

/// A table [rows, columns] as [columns, rows].
[[nodiscard]] TableNumbers transposed(std::size_t table, std::uint64_t rows, std::uint64_t columns);

[[nodiscard]] TableNumbers zeros();

/// A table of running sums divided by their weight, another table with one number; 0 if the weight
/// is 0.
[[nodiscard]] TableNumbers divided(std::size_t sums, std::size_t weight);

/// Concatenated tensors, each with its number of elements.
[[nodiscard]] TableNumbers joined(std::vector<std::pair<std::uint64_t, TableNumbers>> parts);

}  // namespace taut::model
