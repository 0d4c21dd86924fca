#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "common/result.hpp"
#include "worker/library/tautline.h"

namespace taut::library {

/// Checks that an element type is one of the interface's.
/// Errors    invalid: no such element type; lists the known ones
[[nodiscard]] Result<void> check_element(tautline_element element);
/// Checks the element type of memory that the library writes: float32.
/// Errors    invalid: any other
[[nodiscard]] Result<void> check_written(tautline_element element);

/// Reads the element type that a program wrote into a structure's field. In C that may be any
/// number, and C++ must not read a number as an enumeration without that value.
/// Errors    invalid: no element type has the number
[[nodiscard]] Result<tautline_element> element_in(const tautline_element& field);

[[nodiscard]] std::size_t bytes_of(tautline_element element);
[[nodiscard]] std::string_view words_of(tautline_element element);

/// Converts numbers to float32: exactly, but float64 is rounded to the nearest.
/// from  [out.size()] of the element type
void to_float32(tautline_element element, const void* from, std::span<float> out);

}  // namespace taut::library
