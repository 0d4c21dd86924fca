#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// The errors for data and results that an operation cannot work with, the same on every device.
namespace taut {

/// A label outside the classes [0, classes).
[[nodiscard]] std::string label_fault(float label, std::size_t position, std::int64_t classes);
/// A number that names no row of an embedding.
[[nodiscard]] std::string row_fault(float number, std::size_t position, std::int64_t rows);

/// A result that is too large for float16.
[[nodiscard]] std::string overflow_fault(std::size_t position, std::int64_t largest);

}  // namespace taut
