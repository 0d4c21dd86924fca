#include "cli/sweep/report/report_json.hpp"

#include <nlohmann/json.hpp>

namespace taut::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Spread& spread) {
  if (spread.count == 0) return {};
  return {{"mean", spread.mean}, {"deviation", spread.deviation}, {"runs", spread.count}};
}

/// The varied fields with their values, numbers as numbers.
Json setting_of(const SweepPoint& point, const std::vector<std::string>& fields) {
  Json setting;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Json number = Json::parse(point.values[i], nullptr, false);
    setting[fields[i]] = number.is_number() ? number : Json(point.values[i]);
  }
  return setting;
}

Json to_json(const PointFigures& point, const SweepReport& report) {
  const SweepMetric& metric = report.target.metric;
  Json runs = Json::array();
  for (const auto& [seed, time] : point.by_seed) {
    runs.push_back({{"seed", seed},
                    {"seconds_to_target", time ? Json(time->seconds) : Json()},
                    {"clocks_to_target", time ? Json(time->clocks) : Json()},
                    {"tests_around_target", time ? Json(time->tests_around) : Json()}});
  }
  return {{"bound", point.point.slack},
          {"workers", point.point.workers},
          {"variant", point.point.variant.empty() ? Json() : Json(point.point.variant)},
          {"cluster", point.point.cluster.empty() ? Json() : Json(point.point.cluster)},
          {"setting", setting_of(point.point, report.fields)},
          {"runs", point.runs.size()},
          {"seconds_to_target", to_json(point.to_target_s)},
          {"clocks_to_target", to_json(point.to_target_clocks)},
          {metric.name, to_json(point.final_value)},
          {"rate", to_json(point.rate)},
          {"waiting_share", to_json(point.wait_share)},
          {"staleness", to_json(point.staleness)},
          {"test_share", to_json(point.test_share)},
          {"by_seed", runs}};
}

}  // namespace

std::string report_json(const SweepReport& report, const std::filesystem::path& page) {
  const SweepTarget& target = report.target;
  Json points = Json::array();
  for (const PointFigures& point : report.points) points.push_back(to_json(point, report));
  Json verdicts = Json::array();
  for (const auto& group : groups_of(report.points, target.metric)) {
    const SweepVerdict found = verdict(group, target);
    Json tests = Json::array();
    for (const PairedTest& test : found.tests) {
      tests.push_back({{group.front().point.kind(), test.name},
                       {"seeds", test.seeds},
                       {"later_s", test.later_s},
                       {"p", test.p}});
    }
    verdicts.push_back({{"group", group.front().point.group()},
                        {"verdict", found.text},
                        {"given", found.is_given},
                        {"seeds_needed", seeds_needed(group.size())},
                        {"against", tests},
                        {"basis", basis_of(group, target)}});
  }
  Json failures = Json::array();
  for (const SweepOutcome& outcome : report.outcomes) {
    if (outcome.result) continue;
    failures.push_back({{"run", outcome.run.folder}, {"reason", outcome.failure}});
  }
  const Json whole{{"name", report.name},
                   {"metric", target.metric.name},
                   {"target", target.value},
                   {"target_fixed", target.is_fixed},
                   {"rate_unit", rate_of(report.points)},
                   {"records_of_a_test", target.metric.test_records},
                   {"points", points},
                   {"verdicts", verdicts},
                   {"failures", failures},
                   {"report", page.string()}};
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace taut::cli
