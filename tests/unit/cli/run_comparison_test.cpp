#include "cli/runs/run_comparison.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {

TEST_CASE("of very many fields in which jobs differ some are shown, and all are counted", "[cli]") {
  const test::TempFolder folder;
  const auto run_of = [&](const std::string& name, int files) {
    std::string job;
    for (int i = 0; i < files; ++i) job += "weights: '" + name + std::to_string(i) + "'\n";
    folder.write(name + "/job.textproto", job);
    RunRecord run;
    run.folder = folder.path() / name;
    run.name = name;
    return run;
  };
  const auto comparison = compare(run_of("first", 250), run_of("second", 250));
  REQUIRE(comparison.has_value());
  CHECK(comparison.value().fields.size() == 250);
  const std::vector<std::string> lines = comparison_lines(comparison.value());
  const auto count = [&](const std::string& word) {
    return std::ranges::count_if(
        lines, [&](const std::string& line) { return line.find(word) != std::string::npos; });
  };
  CHECK(count("the jobs differ in 250 fields:") == 1);
  CHECK(count("weights[") == 200);
  CHECK(lines.back() == "  and 50 more");
  CHECK_THAT(comparison_html(comparison.value()), Contains("<p>and 50 more</p>"));
}

}  // namespace taut::cli
