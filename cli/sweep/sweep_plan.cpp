#include "cli/sweep/sweep_plan.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>

#include "cli/job_options.hpp"
#include "cli/job_records.hpp"
#include "worker/model/job.hpp"

namespace taut::cli {
namespace {

constexpr std::uint32_t kMaxWorkers = 256;
constexpr std::uint32_t kMaxSeeds = 1000;

/// Nothing if the text is not a slack.
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

/// REQUIRES: check_axes() found nothing.
std::vector<Bound> bounds_of(const pb::Sweep& sweep) {
  std::vector<std::string> slacks(sweep.slack().begin(), sweep.slack().end());
  if (slacks.empty() && sweep.policy().empty()) slacks = {"0", "1", "2", "4", "8", "async"};
  std::vector<Bound> bounds;
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
  void add(std::string line) {
    if (known_.insert(line).second) lines_ += (lines_.empty() ? "" : "\n") + line;
  }
  [[nodiscard]] const std::string& lines() const { return lines_; }

 private:
  std::set<std::string> known_;
  std::string lines_;
};

void check_axes(const pb::Sweep& sweep, Findings& findings) {
  if (sweep.seeds() < 1 || sweep.seeds() > kMaxSeeds) {
    findings.add(fmt::format("seeds: must be from 1 to {}, is {}", kMaxSeeds, sweep.seeds()));
  }
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
  if (!(sweep.limit_s() > 0)) {
    findings.add(fmt::format("limit_s: must be greater than 0, is {}", sweep.limit_s()));
  }
  std::set<std::string> seen;
  for (const std::string& slack : sweep.slack()) {
    if (!consistency_of(slack)) {
      findings.add(
          fmt::format("slack: must be a number of clocks (0 is BSP) or async, is \"{}\"", slack));
    } else if (!seen.insert(slack).second) {
      findings.add(fmt::format("slack {} is named twice", slack));
    }
  }
  seen.clear();
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
  seen.clear();
  for (const std::uint32_t workers : sweep.workers()) {
    if (workers < 1 || workers > kMaxWorkers) {
      findings.add(fmt::format("workers: must be from 1 to {}, is {}", kMaxWorkers, workers));
    } else if (!seen.insert(std::to_string(workers)).second) {
      findings.add(fmt::format("workers {} is named twice", workers));
    }
  }
  seen.clear();
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

/// Intervals of a run whose test_interval is chosen here.
constexpr std::int32_t kTestsChosen = 40;

/// Shortens the test interval of a point where it gives too few tests.
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
    findings.add(fmt::format("{}, {}: {}", point.bound(), point.group(), what));
  };
  const auto checked = model::check_job(point.job, records_of(point.job).records);
  if (!checked) return say(checked.error().message);
  if (point.job.solver_param().max_iter() <= 0) say("solver: max_iter must be greater than 0");
  if (point.job.solver_param().test_iter_size() == 0) {
    return say("solver: test_iter is required: without tests there is nothing to compare");
  }
  if (const auto given = metric_of(metric, point.job); !given) say(given.error().message);
}

}  // namespace

namespace {

/// The first part of the name of a run's folder: "slack2", "async", "policy-late".
std::string folder_word(const SweepPoint& point) {
  if (point.is_policy) return "policy-";
  return point.slack == "async" ? "" : "slack";
}

}  // namespace

std::string SweepPoint::bound() const {
  if (slack == "0") return "BSP";
  const bool is_number = slack.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "slack " + slack : slack;
}

std::string SweepPoint::group() const {
  std::string name = fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
  return variant.empty() ? name : name + ", " + variant;
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

Result<SweepPlan> plan_sweep(const pb::Sweep& sweep, const pb::Job& base) {
  Findings findings;
  check_axes(sweep, findings);
  if (!findings.lines().empty()) return invalid(findings.lines());

  pb::Job whole = base;
  put_fields_over(sweep.over(), whole);
  const std::vector<Bound> bounds = bounds_of(sweep);
  std::vector<std::uint32_t> workers(sweep.workers().begin(), sweep.workers().end());
  if (workers.empty()) workers.push_back(whole.workers() > 0 ? whole.workers() : 2);
  std::vector<pb::SweepVariant> variants(sweep.variant().begin(), sweep.variant().end());
  if (variants.empty()) variants.emplace_back();

  SweepPlan plan;
  for (const pb::SweepVariant& variant : variants) {
    for (const std::uint32_t count : workers) {
      for (const Bound& bound : bounds) {
        SweepPoint point{bound.name, count, variant.name(), whole, bound.is_policy};
        put_fields_over(variant.job(), point.job);
        *point.job.mutable_consistency() = bound.consistency;
        point.job.set_workers(count);
        settle_test_interval(point);
        check_point(point, sweep.metric(), findings);
        plan.points.push_back(std::move(point));
      }
    }
  }
  if (!findings.lines().empty()) return invalid(findings.lines());
  TAUT_TRY(plan.metric, metric_of(sweep.metric(), plan.points.front().job));
  for (std::uint32_t repeat = 0; repeat < sweep.seeds(); ++repeat) {
    for (std::size_t i = 0; i < plan.points.size(); ++i) {
      const SweepPoint& point = plan.points[i];
      SweepRun run{i, whole.seed() + repeat, {}, point.job};
      run.job.set_seed(run.seed);
      pb::SolverParameter& solver = *run.job.mutable_solver_param();
      solver.clear_random_seed();
      // Hundreds of runs are compared by their figures: unless the job asks, none is saved.
      if (!solver.has_snapshot_after_train()) solver.set_snapshot_after_train(false);
      run.folder = fmt::format(
          "{}{}-workers{}{}{}-seed{}", folder_word(point), as_file_name(point.slack), point.workers,
          point.variant.empty() ? "" : "-", as_file_name(point.variant), run.seed);
      plan.runs.push_back(std::move(run));
    }
  }
  return plan;
}

}  // namespace taut::cli
