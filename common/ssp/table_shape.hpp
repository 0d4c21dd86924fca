#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/result.hpp"

namespace taut {

// Shapes of tables, as a job's text or its members name them.
inline constexpr std::size_t kMaxNamedTables = 65536;
inline constexpr std::size_t kMaxTableDimensions = 32;
// About four terabytes of float32: beyond it a shape is a mistake.
inline constexpr std::uint64_t kMaxTableElements = 1ULL << 40U;

/// "2x3", or "scalar".
[[nodiscard]] std::string words_of_shape(std::span<const std::int64_t> shape);

/// The number of values of a shape; 1 without dimensions.
/// Errors    invalid: the limit that it exceeds, to follow a table's name: "has shape 2x0: ..."
[[nodiscard]] Result<std::uint64_t> count_of(std::span<const std::int64_t> shape);

}  // namespace taut
