#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/files/tensor_file.hpp"
#include "common/math/filler.hpp"
#include "common/types.hpp"

namespace taut {

enum class TableKind : std::uint8_t {
  kTrained,   // descended by the update rule
  kAveraged,  // running statistics: the members' values are averaged
  kFrozen,    // never pushed
};

/// A table as its creator describes it.
struct TableSpec {
  TableId id;
  std::string name;
  std::vector<std::int64_t> shape;
  TableKind kind = TableKind::kTrained;
  math::Filler filler;
  float lr_mult = 1;
  float decay_mult = 1;
  std::optional<TensorPlace> origin = {};  // what it starts from instead of the filler

  /// Elements.
  [[nodiscard]] std::uint64_t count() const {
    std::uint64_t product = 1;
    for (const std::int64_t extent : shape) product *= static_cast<std::uint64_t>(extent);
    return product;
  }
  friend bool operator==(const TableSpec&, const TableSpec&) = default;
};

}  // namespace taut
