#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ssp/table.hpp"

namespace taut {

/// Divides tables, in their order, into fragments of similar size; pure, so that workers and shards
/// agree without a message. Returns the fragment of each table, ascending; with fewer tables than
/// fragments, or a very large table, some fragments are empty.
[[nodiscard]] std::vector<std::uint32_t> fragments_of(std::span<const TableSpec> tables,
                                                      std::uint32_t fragments);

}  // namespace taut
