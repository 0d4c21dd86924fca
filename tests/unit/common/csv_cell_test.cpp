#include "common/csv_cell.hpp"

#include "tests/support/catch.hpp"

using namespace taut;

TEST_CASE("a cell of CSV is quoted where it must be", "[csv]") {
  CHECK(csv_cell("") == "");
  CHECK(csv_cell("worker 0") == "worker 0");
  CHECK(csv_cell("a,b") == "\"a,b\"");
  CHECK(csv_cell("say \"so\"") == "\"say \"\"so\"\"\"");
  CHECK(csv_cell("two\nlines") == "\"two\nlines\"");
  CHECK(csv_cell("end\r") == "\"end\r\"");
}
