#include "common/ssp/fragments.hpp"

#include <algorithm>

namespace taut {

std::vector<std::uint32_t> fragments_of(std::span<const TableSpec> tables,
                                        std::uint32_t fragments) {
  double all = 0;
  for (const TableSpec& table : tables) all += static_cast<double>(table.count());
  std::vector<std::uint32_t> fragment_of;
  fragment_of.reserve(tables.size());
  double before = 0;
  for (const TableSpec& table : tables) {
    const auto count = static_cast<double>(table.count());
    // Where its middle is.
    const double place = (before + count / 2) / all * fragments;
    fragment_of.push_back(std::min(static_cast<std::uint32_t>(place), fragments - 1));
    before += count;
  }
  return fragment_of;
}

}  // namespace taut
