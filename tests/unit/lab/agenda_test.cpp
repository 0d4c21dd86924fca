#include "lab/training/agenda.hpp"

#include <vector>

#include "tests/support/catch.hpp"

namespace taut::lab {

TEST_CASE("what was entered first happens first at one moment, and earlier moments go before",
          "[lab]") {
  Agenda agenda;
  std::vector<int> seen;
  const TimePoint noon(Duration(12));
  agenda.at(noon, [&] { seen.push_back(1); });
  agenda.at(noon, [&] { seen.push_back(2); });
  agenda.at(TimePoint(Duration(3)), [&] { seen.push_back(0); });
  agenda.at(noon, [&] { seen.push_back(3); });
  CHECK(agenda.next() == TimePoint(Duration(3)));
  while (agenda.next() != TimePoint::never()) agenda.take()();
  CHECK(seen == std::vector<int>{0, 1, 2, 3});
  CHECK(agenda.taken() == 4);
}

}  // namespace taut::lab
