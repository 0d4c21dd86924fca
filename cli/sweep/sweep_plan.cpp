#include "cli/sweep/sweep_plan.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "cli/job_options.hpp"
#include "cli/job_records.hpp"
#include "cli/sweep/job_field.hpp"
#include "cli/sweep/vary.hpp"
#include "lab/training/costs/cluster_misfit.hpp"
#include "lab/training/topology.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/lab/lab_cluster.hpp"
#include "proto/config/text.hpp"
#include "worker/model/job/job.hpp"

namespace taut::cli {
namespace {

constexpr std::uint32_t kMaxWorkers = 256;
constexpr std::uint32_t kMaxLabWorkers = 100'000;
constexpr std::uint32_t kMaxParallel = 256;
constexpr std::uint32_t kMaxSeeds = 1000;

/// nullopt if the text is not a slack.
std::optional<pb::Consistency> consistency_of(const std::string& text) {
  const auto slack = parse_slack(text);
  if (!slack) return std::nullopt;
  pb::Job job;
  JobOptions options;
  options.slack = slack;
  put_over(options, job);
  return job.consistency();
}

/// What replaces the job's consistency: a slack, or a policy.
struct Bound {
  std::string name;
  pb::Consistency consistency;
  bool is_policy = false;
};

/// The job's own consistency.
Bound own_bound(const pb::Job& job) {
  const pb::Consistency& own = job.consistency();
  const std::string slack = own.mode() == pb::Consistency::ASYNC ? "async"
                            : own.mode() == pb::Consistency::BSP ? "0"
                                                                 : std::to_string(own.slack());
  pb::Consistency rest = own;
  rest.clear_mode();
  rest.clear_slack();
  if (rest.ByteSizeLong() > 0) return {"own", own, true};
  return {slack, *consistency_of(slack)};
}

/// REQUIRES: check_axes() found nothing.
std::vector<Bound> bounds_of(const pb::Sweep& sweep, const pb::Job& job) {
  std::vector<std::string> slacks(sweep.slack().begin(), sweep.slack().end());
  if (slacks.empty() && sweep.policy().empty()) {
    if (!sweep.vary().empty()) return {own_bound(job)};
    slacks = {"0", "1", "2", "4", "8", "async"};
  }
  std::vector<Bound> bounds;
  bounds.reserve(slacks.size());
  for (const std::string& slack : slacks) bounds.push_back({slack, *consistency_of(slack)});
  for (const pb::SweepPolicy& policy : sweep.policy()) {
    bounds.push_back({policy.name(), policy.consistency(), true});
  }
  return bounds;
}

std::string as_file_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return name;
}

/// Collects every mistake, so that all of them are reported at once.
class Findings {
 public:
  void add(const std::string& line) {
    if (known_.insert(line).second) lines_ += (lines_.empty() ? "" : "\n") + line;
  }
  [[nodiscard]] const std::string& lines() const { return lines_; }

 private:
  std::set<std::string> known_;
  std::string lines_;
};

void check_numbers(const pb::Sweep& sweep, Findings& findings) {
  if (sweep.seeds() < 1 || sweep.seeds() > kMaxSeeds) {
    findings.add(fmt::format("seeds: must be from 1 to {}, is {}", kMaxSeeds, sweep.seeds()));
  }
  if (sweep.parallel() < 1 || sweep.parallel() > kMaxParallel) {
    findings.add(
        fmt::format("parallel: must be from 1 to {}, is {}", kMaxParallel, sweep.parallel()));
  }
  if (sweep.memory_limit() > 0 && sweep.cluster().empty()) {
    findings.add("memory_limit: is for runs in the lab; give its cluster, or omit it");
  }
  if (!(sweep.limit_s() > 0)) {
    findings.add(fmt::format("limit_s: must be greater than 0, is {}", sweep.limit_s()));
  }
}

void check_target(const pb::Sweep& sweep, Findings& findings) {
  if (sweep.has_target_accuracy() &&
      !(sweep.target_accuracy() > 0 && sweep.target_accuracy() < 1)) {
    findings.add(
        fmt::format("target_accuracy: must be greater than 0 and less than 1, e.g. 0.85, is {}",
                    sweep.target_accuracy()));
  }
  if (sweep.has_target_accuracy() && (sweep.has_target() || sweep.metric() != "accuracy")) {
    findings.add(sweep.has_target()
                     ? "target and target_accuracy: give one"
                     : fmt::format("target_accuracy: the metric is \"{}\"; give target instead",
                                   sweep.metric()));
  }
  if (sweep.has_target() && !std::isfinite(sweep.target())) {
    findings.add(fmt::format("target: must be a number, is {}", sweep.target()));
  } else if (sweep.has_target() && sweep.metric() == "accuracy" &&
             !(sweep.target() > 0 && sweep.target() < 1)) {
    findings.add(fmt::format("target: must be greater than 0 and less than 1, e.g. 0.85, is {}",
                             sweep.target()));
  }
}

void check_slacks(const pb::Sweep& sweep, Findings& findings) {
  std::set<std::string> seen;
  for (const std::string& slack : sweep.slack()) {
    if (!consistency_of(slack)) {
      findings.add(
          fmt::format("slack: must be a number of clocks (0 is BSP) or async, is \"{}\"", slack));
    } else if (!seen.insert(slack).second) {
      findings.add(fmt::format("slack {} is named twice", slack));
    }
  }
}

void check_policies(const pb::Sweep& sweep, Findings& findings) {
  std::set<std::string> seen;
  for (const pb::SweepPolicy& policy : sweep.policy()) {
    const std::string& name = policy.name();
    if (name.empty()) findings.add("a policy has no name");
    if (consistency_of(name)) {
      findings.add(fmt::format("policy \"{}\" is named like a slack: use another name", name));
    }
    if (!seen.insert(as_file_name(name)).second) {
      findings.add(fmt::format("policy \"{}\" is named twice", name));
    }
    if (!policy.has_consistency()) {
      findings.add(fmt::format(
          "policy \"{}\" has no consistency, e.g. consistency {{ mode: SSP dynamic_slack {{ }} }}",
          name));
    }
  }
}

/// What is wrong with a number of workers; empty if nothing is.
std::string problem_of_workers(const pb::Sweep& sweep, std::uint32_t workers) {
  const std::uint32_t most = sweep.cluster().empty() ? kMaxWorkers : kMaxLabWorkers;
  if (workers >= 1 && workers <= most) return {};
  return fmt::format("workers: must be from 1 to {}, is {}{}", most, workers,
                     workers > most && most < kMaxLabWorkers
                         ? "; the lab takes more, on a cluster that is named"
                         : "");
}

void check_worker_counts(const pb::Sweep& sweep, Findings& findings) {
  std::set<std::string> seen;
  for (const std::uint32_t workers : sweep.workers()) {
    if (std::string problem = problem_of_workers(sweep, workers); !problem.empty()) {
      findings.add(problem);
    } else if (!seen.insert(std::to_string(workers)).second) {
      findings.add(fmt::format("workers {} is named twice", workers));
    }
  }
}

void check_variants(const pb::Sweep& sweep, Findings& findings) {
  std::set<std::string> seen;
  for (const pb::SweepVariant& variant : sweep.variant()) {
    if (variant.name().empty()) findings.add("a variant has no name");
    if (!seen.insert(as_file_name(variant.name())).second) {
      findings.add(fmt::format("variant \"{}\" is named twice", variant.name()));
    }
    if (variant.job().has_consistency() || variant.job().has_workers() ||
        variant.job().has_seed()) {
      findings.add(
          fmt::format("variant \"{}\" sets consistency, workers or seed, which are axes "
                      "of the sweep: use slack or policy, workers, seeds",
                      variant.name()));
    }
  }
}

/// A cluster's name: its file's, without the extension.
std::string name_of_cluster(const std::string& file) {
  return std::filesystem::path(file).stem().string();
}

void check_clusters(const pb::Sweep& sweep, Findings& findings) {
  std::map<std::string, std::string> seen;  // files, by their name in folders
  for (const std::string& file : sweep.cluster()) {
    const auto [other, is_new] = seen.emplace(as_file_name(name_of_cluster(file)), file);
    if (is_new) continue;
    findings.add(other->second == file
                     ? fmt::format("cluster {} is named twice", file)
                     : fmt::format("clusters {} and {} have the same name, {}; rename one",
                                   other->second, file, name_of_cluster(file)));
  }
}

void check_axes(const pb::Sweep& sweep, Findings& findings) {
  check_numbers(sweep, findings);
  check_target(sweep, findings);
  check_slacks(sweep, findings);
  check_policies(sweep, findings);
  check_worker_counts(sweep, findings);
  check_variants(sweep, findings);
  check_clusters(sweep, findings);
}

/// Intervals of a run whose test_interval is chosen here.
constexpr std::int32_t kTestsChosen = 40;

/// Shortens the test interval of a point that has too few tests.
void settle_test_interval(SweepPoint& point) {
  pb::SolverParameter& solver = *point.job.mutable_solver_param();
  point.given_interval = solver.test_interval();
  const auto needed = static_cast<std::int32_t>(kTestsNeeded);
  const bool tests_enough =
      point.given_interval > 0 && solver.max_iter() / point.given_interval >= needed;
  if (!tests_enough) solver.set_test_interval(std::max(1, solver.max_iter() / kTestsChosen));
}

void check_point(const SweepPoint& point, const std::string& metric, Findings& findings) {
  const auto say = [&](const std::string& what) {
    findings.add(fmt::format("{}, {}: {}", point.name(), point.group(), what));
  };
  if (point.job.has_net() || point.job.has_solver()) {
    return say(fmt::format(
        "{0}: a file cannot replace the job's {0}; give {0}_param {{ }}, or sweep another job",
        point.job.has_net() ? "net" : "solver"));
  }
  const auto checked = model::check_job(point.job, records_of(point.job).records);
  if (!checked) return say(checked.error().message);
  if (point.job.solver_param().max_iter() <= 0) say("solver: max_iter must be greater than 0");
  if (point.job.solver_param().test_iter_size() == 0) {
    return say("solver: test_iter is required: without tests there is nothing to compare");
  }
  // For all points with the same tests: reported once.
  if (const auto given = metric_of(metric, point.job); !given) {
    findings.add(given.error().message);
  }
}

}  // namespace

namespace {

/// The first part of the name of a run's folder: "slack2", "async", "policy-late".
std::string folder_word(const SweepPoint& point) {
  if (point.is_policy) return "policy-";
  return point.slack == "async" ? "" : "slack";
}

/// The name of a run's folder. A setting that would make it long is replaced by its number.
std::string folder_name(const SweepPoint& point, bool names_cluster, std::size_t setting,
                        std::uint64_t seed) {
  constexpr std::size_t kMaxSettingName = 60;
  std::string name =
      fmt::format("{}{}-workers{}", folder_word(point), as_file_name(point.slack), point.workers);
  if (!point.variant.empty()) name += "-" + as_file_name(point.variant);
  if (names_cluster) name += "-" + as_file_name(point.cluster);
  if (!point.setting.empty()) {
    std::string words = as_file_name(point.setting);
    if (words.size() > kMaxSettingName) words = fmt::format("setting{}", setting + 1);
    name += "-" + words;
  }
  return name + fmt::format("-seed{}", seed);
}

/// "base_lr 0.01, momentum 0.9"
std::string setting_name(const std::vector<std::string>& fields, const Setting& values) {
  std::string name;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    name += fmt::format("{}{} {}", i == 0 ? "" : ", ", fields[i], values[i]);
  }
  return name;
}

}  // namespace

std::string SweepPoint::bound() const {
  if (slack == "0") return "BSP";
  const bool is_number = slack.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "slack " + slack : slack;
}

std::string SweepPoint::group() const {
  std::string name = fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
  if (is_by_setting) name = bound() + ", " + name;
  if (!variant.empty()) name += ", " + variant;
  if (!cluster.empty()) name += ", " + cluster;
  return is_by_setting || setting.empty() ? name : name + ", " + setting;
}

void put_fields_over(const google::protobuf::Message& over, google::protobuf::Message& base) {
  const auto* reflection = over.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(over, &fields);
  google::protobuf::Message* rest = over.New();
  rest->CopyFrom(over);
  for (const auto* field : fields) {
    if (field->is_repeated()) {
      base.GetReflection()->ClearField(&base, field);
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      put_fields_over(reflection->GetMessage(over, field),
                      *base.GetReflection()->MutableMessage(&base, field));
      reflection->ClearField(rest, field);
    }
  }
  base.MergeFrom(*rest);
  delete rest;
}

namespace {

/// A cluster of the lab.
struct NamedCluster {
  std::string name;  // empty: real processes
  std::string text;
};

/// Reads the sweep's clusters, and checks that each suits all runs on it.
/// workers  numbers of them
Result<std::vector<NamedCluster>> read_clusters(const pb::Sweep& sweep,
                                                const std::vector<std::uint32_t>& workers,
                                                pb::Job job) {
  std::vector<NamedCluster> clusters;
  for (const std::string& file : sweep.cluster()) {
    TAUT_TRY(const pb::LabCluster read, read_lab_cluster(file));
    for (const std::uint32_t count : workers) {
      const auto placed = lab::Topology::make(read, sweep.servers(), count, 1);
      if (!placed) return invalid(fmt::format("{}: {}", file, placed.error().message));
      job.set_workers(count);
      // The runs themselves report what is wrong with the job.
      const auto misfit = lab::cluster_misfit(job, read, sweep.servers());
      if (misfit && misfit.value()) {
        return lab_cluster_error(file, misfit.value()->steps, misfit.value()->what);
      }
    }
    clusters.push_back({name_of_cluster(file), to_text(read)});
  }
  if (clusters.empty()) clusters.emplace_back();
  return clusters;
}

/// What the points of a sweep differ in.
struct Axes {
  std::vector<pb::SweepVariant> variants;
  std::vector<NamedCluster> clusters;
  std::vector<std::uint32_t> workers;
  std::vector<Setting> settings;
  std::vector<Bound> bounds;
  std::vector<std::string> fields;  // that are varied: their paths
  std::vector<std::string> names;   // the names for display
};

/// REQUIRES: check_axes() found nothing.
Result<Axes> axes_of(const pb::Sweep& sweep, const pb::Job& whole) {
  Axes axes;
  axes.variants.assign(sweep.variant().begin(), sweep.variant().end());
  if (axes.variants.empty()) axes.variants.emplace_back();
  axes.workers.assign(sweep.workers().begin(), sweep.workers().end());
  if (axes.workers.empty()) axes.workers.push_back(whole.workers() > 0 ? whole.workers() : 2);
  // The job's own number is the axis if the sweep names none.
  if (std::string problem = problem_of_workers(sweep, axes.workers.front()); !problem.empty()) {
    return invalid(std::move(problem));
  }
  TAUT_TRY(axes.clusters, read_clusters(sweep, axes.workers, whole));
  TAUT_TRY(axes.settings, settings_of(sweep, whole));
  axes.bounds = bounds_of(sweep, whole);
  for (const pb::SweepVary& vary : sweep.vary()) axes.fields.push_back(vary.field());
  axes.names = short_names(sweep);
  return axes;
}

/// A point without its varied fields and its tests.
SweepPoint point_of(const Axes& axes, const pb::Job& whole, const pb::SweepVariant& variant,
                    const NamedCluster& cluster, std::uint32_t workers, const Setting& setting,
                    const Bound& bound) {
  SweepPoint point{bound.name, workers, variant.name(), whole, bound.is_policy};
  point.cluster = cluster.name;
  point.values = setting;
  point.setting = setting_name(axes.names, setting);
  point.is_by_setting = axes.bounds.size() == 1 && !setting.empty();
  put_fields_over(variant.job(), point.job);
  *point.job.mutable_consistency() = bound.consistency;
  point.job.set_workers(workers);
  return point;
}

/// Sets the varied fields, shortens the interval of the tests where needed, and checks the job.
void complete(SweepPoint& point, const Axes& axes, const std::string& metric, Findings& findings) {
  for (std::size_t i = 0; i < axes.fields.size(); ++i) {
    if (const auto set = set_job_field(axes.fields[i], point.values[i], point.job); !set) {
      return findings.add(
          fmt::format("{}, {}: {}", point.name(), point.group(), set.error().message));
    }
  }
  // As the run's process will load it, so that check_point() sees its meetings.
  settle_exchange(point.job);
  settle_test_interval(point);
  check_point(point, metric, findings);
}

SweepRun run_of(const Axes& axes, const SweepPoint& point, std::size_t number, std::uint64_t seed) {
  const std::size_t setting = number / axes.bounds.size() % axes.settings.size();
  const bool names_cluster = axes.clusters.size() > 1;
  SweepRun run{number, seed, folder_name(point, names_cluster, setting, seed), point.job};
  run.cluster = std::ranges::find(axes.clusters, point.cluster, &NamedCluster::name)->text;
  run.job.set_seed(seed);
  pb::SolverParameter& solver = *run.job.mutable_solver_param();
  solver.clear_random_seed();
  // Hundreds of runs are compared by their figures: none is saved unless the job requests it.
  if (!solver.has_snapshot_after_train()) solver.set_snapshot_after_train(false);
  return run;
}

}  // namespace

Result<SweepPlan> plan_sweep(const pb::Sweep& sweep, const pb::Job& base) {
  Findings findings;
  check_axes(sweep, findings);
  if (!findings.lines().empty()) return invalid(findings.lines());

  pb::Job whole = base;
  // Derived from the exchange; settle_exchange() adds it for each point.
  if (exchanges_at_workers(whole)) whole.mutable_consistency()->clear_periodic_averaging();
  put_fields_over(sweep.over(), whole);
  TAUT_TRY(const Axes axes, axes_of(sweep, whole));
  SweepPlan plan;
  plan.fields = axes.fields;
  plan.is_in_lab = !sweep.cluster().empty();
  const auto add_points = [&](const pb::SweepVariant& variant, const NamedCluster& cluster) {
    for (const std::uint32_t workers : axes.workers) {
      for (const Setting& setting : axes.settings) {
        for (const Bound& bound : axes.bounds) {
          SweepPoint point = point_of(axes, whole, variant, cluster, workers, setting, bound);
          complete(point, axes, sweep.metric(), findings);
          plan.points.push_back(std::move(point));
        }
      }
    }
  };
  for (const pb::SweepVariant& variant : axes.variants) {
    for (const NamedCluster& cluster : axes.clusters) {
      add_points(variant, cluster);
    }
  }
  if (!findings.lines().empty()) return invalid(findings.lines());
  TAUT_TRY(plan.metric, metric_of(sweep.metric(), plan.points.front().job));
  std::set<std::string> folders;
  for (std::uint32_t repeat = 0; repeat < sweep.seeds(); ++repeat) {
    for (std::size_t i = 0; i < plan.points.size(); ++i) {
      plan.runs.push_back(run_of(axes, plan.points[i], i, whole.seed() + repeat));
      if (folders.insert(plan.runs.back().folder).second) continue;
      return invalid(fmt::format(
          "two runs have the folder {}: their values differ only in characters that no folder has",
          plan.runs.back().folder));
    }
  }
  return plan;
}

}  // namespace taut::cli
