#include "cli/sweep/report_json.hpp"

#include <nlohmann/json.hpp>

namespace taut::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Spread& spread) {
  if (spread.count == 0) return {};
  return {{"mean", spread.mean}, {"deviation", spread.deviation}, {"runs", spread.count}};
}

Json to_json(const PointFigures& point) {
  return {{"bound", point.point.slack},
          {"workers", point.point.workers},
          {"variant", point.point.variant.empty() ? Json() : Json(point.point.variant)},
          {"runs", point.runs.size()},
          {"seconds_to_target", to_json(point.to_target_s)},
          {"clocks_to_target", to_json(point.to_target_clocks)},
          {"accuracy", to_json(point.accuracy)},
          {"records_per_second", to_json(point.images_per_second)},
          {"waiting_share", to_json(point.wait_share)},
          {"staleness", to_json(point.staleness)}};
}

}  // namespace

std::string report_json(const SweepReport& report, const std::filesystem::path& page) {
  Json points = Json::array();
  for (const PointFigures& point : report.points) points.push_back(to_json(point));
  Json verdicts = Json::array();
  for (const auto& group : groups_of(report.points)) {
    verdicts.push_back(
        {{"group", group.front().point.group()}, {"verdict", verdict(group, report.target)}});
  }
  Json failures = Json::array();
  for (const SweepOutcome& outcome : report.outcomes) {
    if (outcome.result) continue;
    failures.push_back({{"run", outcome.run.folder}, {"reason", outcome.failure}});
  }
  const Json whole{{"name", report.name},  {"target_accuracy", report.target},
                   {"points", points},     {"verdicts", verdicts},
                   {"failures", failures}, {"report", page.string()}};
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace taut::cli
