#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/tables/row_store.hpp"

namespace taut::server {

/// An image's rows in the order of the clocks of their last updates, those of one clock by number:
/// the order in which they are dropped, and a function of the rows alone.
/// width  of a row
[[nodiscard]] std::vector<ListedRow> rows_by_update(const RowImage& image, std::size_t width);

}  // namespace taut::server
