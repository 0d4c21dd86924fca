#include "cli/doctor/data_sets.hpp"

#include "cli/doctor/checks.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

// Of "hello", without a line's end.
constexpr const char* kHello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

DataSet words() {
  return {.name = "words", .files = {{"a.gz", kHello}, {"b", kHello}}};
}

}  // namespace

TEST_CASE("the list of data sets groups files by set", "[doctor]") {
  const auto sets = parse_data_sets(std::string("# for people\nx a.gz ") + kHello + "\n\ny c " +
                                        kHello + "  # more\nx b " + kHello,
                                    "list");
  REQUIRE(sets);
  REQUIRE(sets.value().size() == 2);
  CHECK(sets.value()[0].name == "x");
  CHECK(sets.value()[0].files.size() == 2);
  CHECK(sets.value()[1].files[0].name == "c");
}

TEST_CASE("a line that is no data set's file is named", "[doctor]") {
  const std::string good = std::string("x a ") + kHello + "\n";
  for (const std::string& bad : std::vector<std::string>{
           "x", "x a", "x a 12", "x a " + std::string(64, 'g'), "x a " + std::string(65, 'a'),
           std::string("x a ") + kHello + " more"}) {
    const auto sets = parse_data_sets(good + bad, "list");
    CAPTURE(bad);
    REQUIRE_FALSE(sets.has_value());
    CHECK_THAT(sets.error().message, Contains("list:2:"));
  }
}

TEST_CASE("a data set is found packed or not, and each file's bytes are checked", "[doctor]") {
  const test::TempFolder folder;
  const auto look = [&] { return examine(words(), {folder.path() / "none", folder.path()}); };
  CHECK(look().folder.empty());
  CHECK(check_data({look()})[0].verdict == Verdict::kOk);
  folder.write("a", "hello");
  CHECK(look().missing == std::vector<std::string>{"b"});
  CHECK(check_data({look()})[0].verdict == Verdict::kWarning);
  folder.write("b", "hello");
  CHECK(look().folder == folder.path());
  CHECK((look().missing.empty() && look().damaged.empty()));
  folder.write("b", "hullo");
  CHECK(look().damaged == std::vector<std::string>{"b"});
  const Finding finding = check_data({look()})[0];
  CHECK(finding.verdict == Verdict::kTrouble);
  CHECK_THAT(finding.advice, Contains("scripts/get_data words"));
}

TEST_CASE("a missing default data set is a warning, others are only mentioned", "[doctor]") {
  CHECK(check_data({{.name = "mnist"}})[0].verdict == Verdict::kOk);
  const Finding finding = check_data({{.name = "fashion-mnist"}})[0];
  CHECK(finding.verdict == Verdict::kWarning);
  CHECK_THAT(finding.advice, Contains("dataset-fashion-mnist"));
}

}  // namespace taut::cli
