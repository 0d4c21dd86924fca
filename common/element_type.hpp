#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace taut {

/// The type of a stored tensor's elements; all little-endian.
enum class ElementType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
};

/// "F32", as safetensors spells it.
[[nodiscard]] std::string_view to_string(ElementType type);
/// nullopt for an unknown spelling.
[[nodiscard]] std::optional<ElementType> element_type(std::string_view spelling);
[[nodiscard]] std::uint64_t bytes_of(ElementType type);
/// Whether TensorFile::read_floats accepts it.
[[nodiscard]] bool reads_as_floats(ElementType type);

}  // namespace taut
