#include "common/natural_order.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace taut;

TEST_CASE("names are ordered as people count", "[natural-order]") {
  std::vector<std::string> names = {"worker10",
                                    "b",
                                    "worker2",
                                    "worker1",
                                    "",
                                    "worker",
                                    "worker1a",
                                    "worker9",
                                    "worker01",
                                    "rack2-w10",
                                    "rack10-w1",
                                    "rack2-w9",
                                    "worker99999999999999999999999"};
  std::ranges::sort(names, NaturalOrder());
  CHECK(names == std::vector<std::string>{"", "b", "rack2-w9", "rack2-w10", "rack10-w1", "worker",
                                          "worker01", "worker1", "worker1a", "worker2", "worker9",
                                          "worker10", "worker99999999999999999999999"});
}

TEST_CASE("the order of names is strict, and no two names are equal in it", "[natural-order]") {
  const std::vector<std::string> names = {"",   "0",   "00", "1",   "01",   "a",    "a0", "a00",
                                          "a1", "a01", "1a", "a1b", "a01b", "\xff", "A"};
  const NaturalOrder before;
  for (const auto& a : names) {
    for (const auto& b : names) {
      CAPTURE(a, b);
      CHECK(before(a, b) + before(b, a) == (a == b ? 0 : 1));
      for (const auto& c : names) {
        if (before(a, b) && before(b, c)) CHECK(before(a, c));
      }
    }
  }
}
