#include "server/dashboard/job_history.hpp"

#include <algorithm>
#include <cmath>

#include "server/dashboard/status_json.hpp"

namespace taut::dashboard {

void JobHistory::add(const pb::JobStatus& job) {
  const JobFigures figures = figures_of(job);
  if (figures.fastest == 0) return;
  Series& series = jobs_[job.job()];
  if (series.slack && *series.slack != job.slack()) {
    series.changes.push_back(
        {job.running_s(), figures.slowest, *series.slack, job.slack(), staleness_of(job)});
    if (series.changes.size() > kMaxChanges) series.changes.erase(series.changes.begin());
  }
  series.slack = job.slack();
  auto& points = series.points;
  const bool is_new =
      points.empty() || (figures.slowest > points.back().clock &&
                         job.running_s() - points.back().running_s >= series.spacing_s);
  if (!is_new) return;
  points.push_back({job.running_s(), figures.slowest, figures.loss, job.rate(),
                    figures.fastest - figures.slowest});
  if (points.size() >= kMaxPoints) {
    std::vector<Point> half;
    for (std::size_t i = 0; i < points.size(); i += 2) half.push_back(points[i]);
    points = std::move(half);
    const double length = points.back().running_s - points.front().running_s;
    series.spacing_s = length / (kMaxPoints / 2.0);
  }
  while (jobs_.size() > kMaxJobs) jobs_.erase(jobs_.begin());
}

nlohmann::json JobHistory::of(std::uint64_t job) const {
  using nlohmann::json;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return nullptr;
  json t = json::array();
  json clock = json::array();
  json loss = json::array();
  json rate = json::array();
  json apart = json::array();
  for (const Point& point : found->second.points) {
    t.push_back(std::round(point.running_s * 1e2) / 1e2);
    clock.push_back(point.clock);
    loss.push_back(std::isfinite(point.loss) ? json(std::round(point.loss * 1e5) / 1e5) : json());
    rate.push_back(std::round(point.rate));
    apart.push_back(point.apart);
  }
  json changes = json::array();
  for (const Change& change : found->second.changes) {
    changes.push_back({{"t", std::round(change.running_s * 1e2) / 1e2},
                       {"clock", change.clock},
                       {"from", slack_json(change.from)},
                       {"to", slack_json(change.to)},
                       {"staleness", change.staleness}});
  }
  return {{"job", job},     {"t", t},
          {"clock", clock}, {"loss", loss},
          {"rate", rate},   {"images_per_second", rate},
          {"apart", apart}, {"changes", changes}};
}

}  // namespace taut::dashboard
