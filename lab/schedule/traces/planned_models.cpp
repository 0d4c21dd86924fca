#include "lab/schedule/traces/planned_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <string_view>

#include "common/check.hpp"
#include "common/files/file.hpp"
#include "lab/schedule/traces/formats.hpp"

namespace taut::schedule {
namespace {

constexpr std::string_view kHost = "host";
constexpr std::string_view kAcross = "across";

bool is_same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](unsigned char c) { return std::tolower(c); },
      [](unsigned char c) { return std::tolower(c); });
}

Result<PlannedRate> rate_of(const TraceTable& table, std::size_t row) {
  constexpr double kMaxRate = 1e9;
  PlannedRate rate;
  const auto type = find_device_type(table.text(row, "type"));
  if (!type) return table.wrong(row, "type", "V100, P100, K80 or T4");
  rate.type = *type;
  const std::string_view placement = table.text(row, "placement");
  if (placement != kHost && placement != kAcross) {
    return table.wrong(row, "placement", "host or across");
  }
  rate.across = placement == kAcross;
  TAUT_TRY(rate.workers, table.whole(row, "workers", rate.across ? 2 : 1, kMaxWorkers));
  TAUT_TRY(rate.iterations_per_s, table.number(row, "iterations_per_s", 0, true, kMaxRate));
  return rate;
}

/// Which of the nets a job has; nullptr if none of them.
std::shared_ptr<const PlannedModel> model_of(const Job& job, const PlannedModels& models) {
  if (job.net.empty()) return models[stand_in(job.name, models.size())];
  const auto found = std::ranges::find_if(
      models, [&job](const auto& model) { return is_same_name(model->name(), job.net); });
  return found == models.end() ? nullptr : *found;
}

}  // namespace

PlannedModel::PlannedModel(std::string name, std::span<const PlannedRate> rates)
    : name_(std::move(name)) {
  for (const PlannedRate& rate : rates) {
    curves_[static_cast<std::size_t>(rate.type)][rate.across ? 1 : 0].emplace_back(
        rate.workers, rate.iterations_per_s);
  }
  for (auto& placements : curves_) {
    for (Curve& curve : placements) std::ranges::sort(curve);
  }
}

double PlannedModel::rate_at(const Curve& points, std::uint32_t workers) {
  const double count = workers;
  const auto next = std::ranges::lower_bound(points, count, {}, &Curve::value_type::first);
  if (next == points.end()) return points.back().second;
  if (next == points.begin()) return next->second * count / next->first;
  const auto& [below, slower] = *std::prev(next);
  return slower + (next->second - slower) * (count - below) / (next->first - below);
}

double PlannedModel::iterations_per_s(DeviceType type, bool across, std::uint32_t workers) const {
  if (!has(type, across)) return best_iterations_per_s(across, workers);
  return rate_at(curve(type, across), workers);
}

double PlannedModel::best_iterations_per_s(bool across, std::uint32_t workers) const {
  double best = 0;
  for (const auto& placements : curves_) {
    const Curve& points = placements[across ? 1 : 0];
    if (!points.empty()) best = std::max(best, rate_at(points, workers));
  }
  if (best > 0) return best;
  TAUT_CHECK(across, "a net without rates");
  return best_iterations_per_s(false, workers);
}

std::string planned_csv(const std::string& model, std::span<const PlannedRate> rates) {
  std::string name = model;
  std::ranges::replace_if(
      name, [](char c) { return c == ',' || c == '\r' || c == '\n'; }, '_');
  std::string text = "model,type,placement,workers,iterations_per_s\n";
  for (const PlannedRate& rate : rates) {
    text += fmt::format("{},{},{},{},{}\n", name, facts_of(rate.type).name,
                        rate.across ? kAcross : kHost, rate.workers, rate.iterations_per_s);
  }
  return text;
}

Result<PlannedModels> parse_planned_models(const std::string& text, const std::string& name) {
  TAUT_TRY(const TraceTable table, TraceTable::parse(text, name, "rate"));
  if (!table.has({"model", "type", "placement", "workers", "iterations_per_s"})) {
    return invalid(fmt::format(
        "{}:1:1: the columns must be model,type,placement,workers,iterations_per_s, are \"{}\"",
        name, text.substr(0, std::min<std::size_t>(text.find_first_of("\r\n"), 80))));
  }
  std::map<std::string, std::vector<PlannedRate>, std::less<>> rates;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string_view model = table.text(row, "model");
    if (model.empty()) return table.wrong(row, "model", "the name of a net");
    TAUT_TRY(const PlannedRate rate, rate_of(table, row));
    std::vector<PlannedRate>& of_model = rates[std::string(model)];
    const bool is_known = std::ranges::any_of(of_model, [&rate](const PlannedRate& one) {
      return one.type == rate.type && one.across == rate.across && one.workers == rate.workers;
    });
    if (is_known) return table.wrong(row, "workers", "a number that no earlier line has");
    of_model.push_back(rate);
  }
  PlannedModels models;
  for (const auto& [model, of_model] : rates) {
    if (std::ranges::all_of(of_model, &PlannedRate::across)) {
      return invalid(fmt::format("{}: model {} must have a line with placement host", name, model));
    }
    models.push_back(std::make_shared<PlannedModel>(model, of_model));
  }
  return models;
}

Result<void> check_covers(const PlannedModels& models, const Cluster& cluster,
                          const std::string& name) {
  for (const auto& model : models) {
    for (const Host& host : cluster.hosts) {
      for (const bool across : {false, true}) {
        if (model->has(host.type, across) || (across && cluster.hosts.size() == 1)) continue;
        return invalid(fmt::format(
            "{}: model {} must have a line of {} with placement {}, as the cluster has such "
            "devices{}; add it, or give other hosts",
            name, model->name(), facts_of(host.type).name, across ? kAcross : kHost,
            across ? " on several hosts" : ""));
      }
    }
  }
  return ok();
}

Result<PlannedModels> read_planned_models(const std::vector<std::string>& files,
                                          const Cluster& cluster) {
  PlannedModels all;
  for (const std::string& file : files) {
    TAUT_TRY(const std::string text, read_file_gz(file));
    TAUT_TRY(const PlannedModels models, parse_planned_models(text, file));
    TAUT_TRY(check_covers(models, cluster, file));
    for (const auto& model : models) {
      const bool is_known = std::ranges::any_of(
          all, [&](const auto& one) { return is_same_name(one->name(), model->name()); });
      if (is_known) {
        return invalid(fmt::format("{}: model {} must be in one file only, is in an earlier one",
                                   file, model->name()));
      }
      all.push_back(model);
    }
  }
  return all;
}

void plan_jobs(std::vector<Job>& jobs, const PlannedModels& models, const Cluster& cluster) {
  if (models.empty()) return;
  for (Job& job : jobs) {
    job.planned = model_of(job, models);
    if (job.planned == nullptr) continue;
    // A kind of job that is not in the built-in table.
    const auto number = std::ranges::find(models, job.planned) - models.begin();
    job.model = schedule::models().size() + static_cast<std::size_t>(number);
    const bool across = cluster.nearest_tier(job.workers) != Tier::kHost;
    job.iteration_s = job.workers / job.planned->best_iterations_per_s(across, job.workers);
    const double device_s =
        std::min(job.iteration_s, 1 / job.planned->best_iterations_per_s(false, 1));
    job.stage_s = {0, device_s, job.iteration_s - device_s};
  }
}

}  // namespace taut::schedule
