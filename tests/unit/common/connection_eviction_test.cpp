// Which connections are closed when a process may have no more.
#include "common/net/zmq/connection_eviction.hpp"

#include <algorithm>
#include <vector>

#include "tests/support/catch.hpp"

namespace taut {
namespace {

/// heard  seconds
OpenConnection connection(int descriptor, bool has_spoken, int heard, std::size_t key = 0) {
  return {descriptor, has_spoken, TimePoint(Duration(heard * 1'000'000)), key};
}

}  // namespace

TEST_CASE("no connection is closed while there is room", "[eviction]") {
  CHECK(connections_to_close({}, 0).empty());
  CHECK(connections_to_close({connection(3, false, 1), connection(4, true, 2)}, 2).empty());
}

TEST_CASE("those that have sent nothing are closed first, the oldest first", "[eviction]") {
  const std::vector<OpenConnection> open{connection(3, false, 30), connection(4, true, 1, 7),
                                         connection(5, false, 10), connection(6, false, 20)};
  CHECK(connections_to_close(open, 3) == std::vector{5});
  CHECK(connections_to_close(open, 2) == std::vector{5, 6});
  CHECK(connections_to_close(open, 0) == std::vector{5, 6, 3, 4});
}

TEST_CASE("a key that has many connections takes no place of another's", "[eviction]") {
  std::vector<OpenConnection> open;
  open.reserve(22);
  // One key speaks on 20 connections all the time, another is silent on its two.
  for (int i = 0; i < 20; ++i) open.push_back(connection(100 + i, true, 1000 + i, 1));
  open.push_back(connection(7, true, 1, 2));
  open.push_back(connection(8, true, 2, 2));
  const std::vector<int> closed = connections_to_close(open, 4);
  REQUIRE(closed.size() == 18);
  for (int i = 0; i < 18; ++i) CHECK(closed[static_cast<std::size_t>(i)] == 100 + i);
  // From equal shares on, each loses its longest silent one.
  const std::vector<int> more = connections_to_close(open, 2);
  REQUIRE(more.size() == 20);
  CHECK(std::ranges::count(more, 7) == 1);
  CHECK(std::ranges::count(more, 8) == 0);
  CHECK(std::ranges::count(more, 119) == 0);
}

}  // namespace taut
