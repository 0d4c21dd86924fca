#include "cli/playback/played_run.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/playback/report_page.hpp"
#include "cli/playback/run_figures.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using Json = nlohmann::json;

namespace taut::cli {
namespace {

/// Workers on a host each, next to a server's; four bins of a second, the last one half as long.
Json run_of(std::size_t workers) {
  Json hosts = {{{"name", "s"},
                 {"servers", {0}},
                 {"workers", Json::array()},
                 {"computing", Json::array()},
                 {"waiting", Json::array()},
                 {"paused", Json::array()},
                 {"serving", {100, 200, 300, 400}}}};
  Json all = Json::array();
  for (std::size_t i = 0; i < workers; ++i) {
    hosts.push_back({{"name", "w,\"" + std::to_string(i)},
                     {"servers", Json::array()},
                     {"workers", {i}},
                     {"computing", {1000, 500, 0, 0}},
                     {"waiting", {0, 500, 1000, 0}},
                     {"paused", Json::array()},
                     {"serving", Json::array()}});
    all.push_back({{"name", "worker" + std::to_string(i)},
                   {"host", i + 1},
                   {"clock", {0, i == 1 ? -1 : static_cast<int>(i), 2 * i, 9}}});
  }
  Json losses = Json::array();
  if (workers > 1) {
    losses.push_back({{"host", "w,\"1"}, {"at_s", 1.25}, {"back_s", 2.0}, {"had_notice", false}});
  }
  return {
      {"format", 1},
      {"job", "j"},
      {"mode", "SSP"},
      {"slack", 3},
      {"virtual_s", 3.5},
      {"bin_s", 1.0},
      {"bins", 4},
      {"iterations_per_s", {1, 2, 3, 4}},
      {"loss", {nullptr, 2.5, 1.5, 1}},
      {"staleness", Json::array()},
      {"tests", {{{"at_s", 3}, {"iteration", 5}, {"accuracy", 0.5}, {"loss", nullptr}}}},
      {"hosts_lost", losses},
      {"hosts", hosts},
      {"workers", all},
      {"links",
       {{{"name", "w out"}, {"gbit_per_s", 1}, {"busy_share", 0.2}, {"load", {0, 125, 1000, 7}}}}}};
}

PlayedRun parsed(const Json& json) {
  auto run = parse_played_run(json.dump(), "playback.json");
  if (!run) FAIL(run.error().message);
  return std::move(run.value());
}

std::string error_of(const Json& json) {
  const auto run = parse_played_run(json.dump(), "f");
  REQUIRE_FALSE(run.has_value());
  return run.error().message;
}

}  // namespace

TEST_CASE("a host that was away is so in its bins, and the clock of no member is left out",
          "[lab]") {
  const PlayedRun run = parsed(run_of(3));
  CHECK(run.end_s(0) == 1);
  CHECK(run.end_s(3) == 3.5);
  CHECK(run.hosts[2].shares[PlayedRun::kAway] == PlayedRun::Shares{0, 750, 0, 0});
  CHECK(run.hosts[1].shares[PlayedRun::kAway].empty());
  CHECK(clocks_at(run, 1) == std::vector<std::int32_t>{0, 2});
  CHECK(clocks_at(run, 2) == std::vector<std::int32_t>{0, 2, 4});
  CHECK(clocks_csv(run) ==
        "virtual_s,worker0,worker1,worker2\n1.000000,0,0,0\n2.000000,0,,2\n3.000000,0,2,4\n"
        "3.500000,9,9,9\n");
  CHECK(links_csv(run) ==
        "virtual_s,w out\n1.000000,0\n2.000000,0.125\n3.000000,1.000\n3.500000,0.007\n");
  CHECK_THAT(hosts_csv(run), Contains("2.000000,\"w,\"\"1\",0.500,0.500,0,0,0.750\n"));
  CHECK(training_csv(run) ==
        "virtual_s,iterations_per_s,loss,mean_staleness,slowest,median,fastest,bound\n"
        "1.000000,1,,,0,0,0,3\n2.000000,2,2.5,,0,2,2,3\n3.000000,3,1.5,,0,2,4,3\n"
        "3.500000,4,1,,9,9,9,3\n");
  CHECK(tests_csv(run) == "virtual_s,iteration,accuracy,loss\n3.000000,5,0.5,\n");
}

TEST_CASE("a bound that a policy moves is drawn as it is in each bin", "[lab]") {
  Json json = run_of(2);
  CHECK(parsed(json).bound_at(2) == 3);
  json["bound"] = {nullptr, 6, 6, 1};
  const PlayedRun run = parsed(json);
  CHECK(run.bound_at(0) == 3);
  CHECK(run.bound_at(1) == 6);
  CHECK(run.bound_at(3) == 1);
  CHECK_THAT(training_csv(run), Contains("2.000000,2,2.5,,0,0,0,6\n"));
  const std::string lead = figures_of(run)[1].svg;
  CHECK_THAT(lead, Contains("bound: slack 1 to 6"));
  // Down from the first, up to the second, down to the last: it changes twice.
  const std::size_t at = lead.find("fill=\"none\" stroke=\"#000\" stroke-dasharray");
  const std::size_t begin = lead.rfind("d=\"M", at);
  REQUIRE(begin != std::string::npos);
  const std::string path = lead.substr(begin, at - begin);
  CHECK(std::ranges::count(path, 'V') == 2);
  json["slack"] = nullptr;
  CHECK_FALSE(parsed(json).bound_at(0).has_value());
  json["bound"] = {1, 2};
  CHECK_THAT(error_of(json), Contains("\"bound\" has 2 entries, there are 4 bins"));
}

TEST_CASE("a host's row has the shares of its states, one on the other", "[lab]") {
  Json json = run_of(1);
  json["hosts"][1]["computing"] = {250, 0, 0, 0};
  json["hosts"][1]["waiting"] = {500, 0, 0, 0};
  const auto figures = figures_of(parsed(json));
  CHECK(figures[3].name == "hosts");
  // A row is 14 high: computing takes its lowest quarter, waiting the half above; then it is idle.
  const std::string& svg = figures[3].svg;
  const auto area_of = [&](const char* fill) {
    const std::size_t end = svg.find(std::string("Z\" fill=\"") + fill);
    REQUIRE(end != std::string::npos);
    return svg.substr(svg.rfind('M', end), end - svg.rfind('M', end));
  };
  const auto steps_of = [](std::string path) {
    std::vector<double> ys;
    std::ranges::replace(path, 'V', ' ');
    std::istringstream words(path);
    for (std::string word; std::getline(words, word, ' ');) {
      if (const auto h = word.find('H'); h != std::string::npos) {
        ys.push_back(std::stod(word.substr(0, h)));
      }
    }
    return ys;
  };
  const std::vector<double> computing = steps_of(area_of("#0072b2"));
  const std::vector<double> waiting = steps_of(area_of("#e69f00"));
  REQUIRE(computing.size() == 8);  // four bins there and back
  REQUIRE(waiting.size() == 8);
  const double floor = computing.back();
  CHECK(floor - computing[0] == Approx(3.5).margin(0.11));
  CHECK(computing[1] == floor);
  CHECK(computing[0] - waiting[0] == Approx(7).margin(0.11));
  CHECK(waiting.back() == computing[0]);
}

TEST_CASE("few workers are lines with names, many are bands", "[lab]") {
  for (const std::size_t workers : {std::size_t{1}, std::size_t{3}, std::size_t{200}}) {
    const auto figures = figures_of(parsed(run_of(workers)));
    REQUIRE(figures.size() == 8);
    for (const Figure& figure : figures) {
      CHECK_THAT(figure.svg, StartsWith("<svg xmlns") && EndsWith("</svg>\n"));
      CHECK_THAT(figure.svg, !Contains("nan") && !Contains("inf"));
    }
    CHECK((figures[0].svg.find("worker0") != std::string::npos) == (workers < 200));
    CHECK((figures[0].svg.find("10 to 90 %") != std::string::npos) == (workers == 200));
    CHECK_THAT(figures[1].svg, Contains("bound: slack 3"));
  }
  const auto many = figures_of(parsed(run_of(200)));
  CHECK(many[3].name == "hosts");
  CHECK_THAT(many[3].svg, Contains("every 7th of 201"));
}

TEST_CASE("a last bin that is very short makes no peak of the rate", "[lab]") {
  Json json = run_of(1);
  json["virtual_s"] = 3.000001;
  json["iterations_per_s"] = {1, 2, 2, 1e6};
  const auto figures = figures_of(parsed(json));
  CHECK(figures[5].name == "rate");
  // The axis would have numbers of seven digits.
  CHECK_THAT(figures[5].svg, !Contains("00000<") && !Contains("e+0"));
}

TEST_CASE("a run without workers' figures has fewer figures, and one without bins has none",
          "[lab]") {
  Json json = run_of(1);
  json["slack"] = nullptr;
  json["loss"] = Json::array();
  json["tests"] = Json::array();
  json["links"] = Json::array();
  const auto figures = figures_of(parsed(json));
  CHECK(figures.size() == 5);
  CHECK_THAT(figures[1].svg, !Contains("bound"));
  json["bins"] = 0;
  CHECK_THAT(error_of(json), Contains("0 bins of 1 s cannot be those of 3.5 s"));
}

TEST_CASE("rows that fit no bins and hosts that are not there are refused", "[lab]") {
  Json json = run_of(2);
  json["links"][0]["load"] = {1, 2};
  CHECK(error_of(json) == "f: \"load\" has 2 entries, there are 4 bins");
  json = run_of(2);
  json["workers"][0]["host"] = 7;
  CHECK(error_of(json) == "f: a worker is on no host");
  // No figure has rows for it.
  json = run_of(0);
  json["hosts"] = Json::array();
  CHECK(error_of(json) == "f: it has no host");
  json = run_of(2);
  json["format"] = 2;
  CHECK(error_of(json) == "f: format 2, this version reads 1; run the lab again");
  CHECK(error_of(Json::array()) == "f: is not a complete JSON object");
}

TEST_CASE("the page has its files, the figures and the run in it", "[lab]") {
  Json json = run_of(2);
  json["job"] = "</script>";
  const PlayedRun run = parsed(json);
  const std::string page = report_page(run, figures_of(run));
  CHECK_THAT(page, Contains("\\u003c/script>") && Contains("id=\"playback\"") &&
                       Contains("<figure data-name=\"lead\">") && !Contains("<!-- ") &&
                       !Contains("src="));
}

TEST_CASE("a long name is cut between two characters", "[playback]") {
  Json json = run_of(1);
  json["hosts"][0]["name"] = "a host in Münchü and elsewhere";
  const auto figures = figures_of(parsed(json));
  std::string all;
  for (const Figure& figure : figures) all += figure.svg;
  CHECK_THAT(all, Contains(">a host in Münch…<"));
}

TEST_CASE("a run of no time, or a worker that was never a member, is read as such", "[playback]") {
  Json json = run_of(2);
  json["workers"][0]["clock"] = Json::array();
  CHECK(parsed(json).workers[0].clock == std::vector<std::int32_t>(4, -1));
  json["virtual_s"] = 0;
  json["bins"] = 1;
  CHECK_THAT(error_of(json), Contains("cannot be those of 0 s"));
}

}  // namespace taut::cli
