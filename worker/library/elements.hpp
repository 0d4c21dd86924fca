#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "common/result.hpp"
#include "worker/library/tautline.h"

namespace taut::library {

/// Of a type that the interface knows.
/// Errors    invalid: any other; lists the known ones
[[nodiscard]] Result<void> check_element(tautline_element element);
/// Of memory that the library writes, which is float32.
[[nodiscard]] Result<void> check_written(tautline_element element);

[[nodiscard]] std::size_t bytes_of(tautline_element element);
[[nodiscard]] std::string_view words_of(tautline_element element);

/// Numbers as float32: exactly, float64 rounded to the nearest.
/// from  [out.size()] of the type
void to_float32(tautline_element element, const void* from, std::span<float> out);

}  // namespace taut::library
