#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/unit/server/job_maker.hpp"
#include "worker/client/client.hpp"

// Two small tables, which a client opens and pushes to.
namespace taut::test {

/// A deadline that should pass.
inline constexpr Duration kSoon{30'000};
inline constexpr TableId kTable{0};

inline std::vector<TableSpec> two_tables() {
  return {make_table(0, {4}), make_table(1, {2, 3})};
}

/// Pushes what that worker pushes to the table at that clock.
inline void push(Client& client, std::uint32_t worker, std::int64_t clock, TableId table = kTable) {
  const Buffer gradient = client.gradient_buffer(table);
  const auto values = gradient_of(worker, clock, gradient.floats().size());
  std::ranges::copy(values, gradient.floats().begin());
  client.push(table, Clock(clock), gradient);
}

}  // namespace taut::test
