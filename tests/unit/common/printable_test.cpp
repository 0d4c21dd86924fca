#include "common/printable.hpp"

#include <algorithm>

#include "common/log.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using namespace taut;

TEST_CASE("what moves a terminal's cursor or begins a line is written out", "[printable]") {
  CHECK(printable("plain text, \xc3\xa4\tand a tab", Lines::kOne) ==
        "plain text, \xc3\xa4\tand a tab");
  CHECK(printable("\x1b[2J\x07\x7f\r", Lines::kSeveral) == "\\x1b[2J\\x07\\x7f\\x0d");
  CHECK(printable("\xc2\x9b"
                  "2J",
                  Lines::kSeveral) == "\\x9b2J");
  CHECK(printable("one\ntwo", Lines::kOne) == "one\\ntwo");
  CHECK(printable("one\ntwo", Lines::kSeveral) == "one\ntwo");
  CHECK(printable(std::string(20, 'x'), Lines::kOne, 5) == "xxxxx... (20 bytes)");
  CHECK(printable("xxxxx", Lines::kOne, 5) == "xxxxx");
}

TEST_CASE("a peer's text cannot begin a line of the log, or fill it", "[printable]") {
  const test::TempFolder folder;
  log::Options options;
  options.file = (folder.path() / "log").string();
  REQUIRE(log::start(options).has_value());
  const std::uint64_t before = log::position();
  log::warn("a peer says: {}", "done\n12:00:00.000 warning [server] forged\x1b[2J");
  const std::string line = log::read_from(before, 1 << 20).text;
  const std::uint64_t next = log::position();
  log::warn("{}", std::string(1 << 20, 'x'));
  const std::size_t size = log::read_from(next, 1 << 21).text.size();
  options.file.clear();
  REQUIRE(log::start(options).has_value());
  CHECK(line.find("done\\n12:00:00.000 warning [server] forged\\x1b[2J\n") != std::string::npos);
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  CHECK(size > 10000);
  CHECK(size < 20000);
}
