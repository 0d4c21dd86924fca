#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/tables/row_store.hpp"

namespace taut::server {

/// An image's rows in the order of their last updates' clocks, and by number within one clock: the
/// order in which they are dropped, which depends on the rows alone.
/// width  values per row
[[nodiscard]] std::vector<ListedRow> rows_by_update(const RowImage& image, std::size_t width);

}  // namespace taut::server
