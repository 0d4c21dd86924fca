#include "worker/model/job/solver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>

#include "common/did_you_mean.hpp"
#include "common/math/learning_rate.hpp"
#include "proto/config/job_state.hpp"

namespace taut::model {
namespace {

using Policy = math::LearningRatePolicy;

constexpr std::array<std::string_view, 2> kRegularizations{"L1", "L2"};

template <class Names>
Result<void> check_known(const char* field, const std::string& value, const Names& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return ok();
  return invalid(fmt::format("{} \"{}\" is unknown{}; known are {}", field, value,
                             did_you_mean(value, known), fmt::join(known, ", ")));
}

Result<void> check_at_least(const char* field, double value, double least) {
  if (std::isfinite(value) && value >= least) return ok();
  return invalid(fmt::format("{0} must be at least {2}, is {1}", field, value, least));
}

Result<void> check_needed(const Policy& policy, const char* field, bool needed, bool given) {
  if (!needed || given) return ok();
  return invalid(fmt::format("{} is missing: lr_policy \"{}\" needs it", field, policy.name));
}

/// The entry of that name. Errors: invalid, lists the known names.
template <class Entries>
Result<typename Entries::value_type> find_entry(const char* field, const std::string& name,
                                                const Entries& entries) {
  std::vector<std::string_view> names;
  for (const auto& entry : entries) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  TAUT_TRY(check_known(field, name, names));
  return entries[0];
}

Result<void> check_stepvalues(const pb::SolverParameter& solver) {
  int last = 0;
  for (const int value : solver.stepvalue()) {
    if (value <= last) {
      return invalid(
          fmt::format("stepvalue {} follows {}: they must be at least 1 and rise", value, last));
    }
    last = value;
  }
  return ok();
}

Result<void> check_learning_rate(const pb::SolverParameter& solver, const Policy& policy) {
  if (!solver.has_base_lr()) return invalid("base_lr is missing");
  TAUT_TRY(check_needed(policy, "gamma", policy.gamma, solver.has_gamma()));
  TAUT_TRY(check_needed(policy, "power", policy.power, solver.has_power()));
  TAUT_TRY(check_needed(policy, "stepsize", policy.stepsize, solver.has_stepsize()));
  TAUT_TRY(check_needed(policy, "stepvalue", policy.stepvalue, solver.stepvalue_size() > 0));
  if (policy.name == "sigmoid") {
    // Its gamma is a slope: below 0, the rate falls.
    if (!std::isfinite(solver.gamma())) {
      return invalid(fmt::format("gamma is {}", solver.gamma()));
    }
  } else {
    TAUT_TRY(check_at_least("gamma", solver.gamma(), 0));
  }
  TAUT_TRY(check_at_least("power", solver.power(), 0));
  if (solver.has_stepsize()) {
    TAUT_TRY(check_at_least("stepsize", solver.stepsize(), 1));
  }
  TAUT_TRY(check_at_least("lr_reference_batch", solver.lr_reference_batch(), 0));
  TAUT_TRY(check_at_least("warmup_iter", solver.warmup_iter(), 0));
  TAUT_TRY(check_at_least("warmup_start_lr", solver.warmup_start_lr(), 0));
  return check_stepvalues(solver);
}

Result<void> check_numbers(const pb::SolverParameter& solver) {
  TAUT_TRY(check_rule_numbers(solver));
  TAUT_TRY(check_known("regularization_type", solver.regularization_type(), kRegularizations));
  const float clip = solver.clip_gradients();
  if (solver.has_clip_gradients() && clip != -1 && !(clip > 0 && std::isfinite(clip))) {
    return invalid(
        fmt::format("clip_gradients must be greater than 0, or -1 for none, is {}", clip));
  }
  return ok();
}

Result<void> check_precision(const pb::SolverParameter& solver) {
  TAUT_TRY(check_at_least("loss_scale", solver.loss_scale(), 0));
  if (solver.loss_scale() > 0 && solver.precision() != pb::SolverParameter::FLOAT16) {
    return invalid(fmt::format("loss_scale is {}: precision {} needs none; omit it",
                               solver.loss_scale(),
                               pb::SolverParameter::Precision_Name(solver.precision())));
  }
  return ok();
}

Result<void> check_tests(const pb::SolverParameter& solver) {
  if (solver.test_iter_size() < solver.test_net_param_size()) {
    return invalid(
        fmt::format("test_iter is given {} times for {} test nets: say how many batches "
                    "a test of each takes",
                    solver.test_iter_size(), solver.test_net_param_size()));
  }
  if (solver.test_state_size() > 0 && solver.test_state_size() != solver.test_iter_size()) {
    return invalid(
        fmt::format("test_state is given {} times and test_iter {} times: give each test phase one "
                    "of both, or no test_state",
                    solver.test_state_size(), solver.test_iter_size()));
  }
  for (const int batches : solver.test_iter()) {
    TAUT_TRY(check_at_least("test_iter", batches, 1));
  }
  TAUT_TRY(check_at_least("test_interval", solver.test_interval(), 0));
  if (solver.test_interval() > 0 && solver.test_iter_size() == 0) {
    return invalid(
        fmt::format("test_interval is {}, but test_iter is missing: say how many batches "
                    "a test takes",
                    solver.test_interval()));
  }
  return ok();
}

Result<void> check_course(const pb::SolverParameter& solver) {
  if (!solver.has_max_iter()) return invalid("max_iter is missing");
  TAUT_TRY(check_at_least("max_iter", solver.max_iter(), 1));
  TAUT_TRY(check_tests(solver));
  TAUT_TRY(check_at_least("iter_size", solver.iter_size(), 1));
  TAUT_TRY(check_at_least("display", solver.display(), 0));
  TAUT_TRY(check_at_least("average_loss", solver.average_loss(), 1));
  return check_at_least("snapshot", solver.snapshot(), 0);
}

void warn_unread(const char* chooser, std::string_view chosen, const char* field, bool given,
                 bool read, std::vector<std::string>& warnings) {
  if (!given || read) return;
  warnings.push_back(fmt::format("{}: {} \"{}\" does not read it", field, chooser, chosen));
}

/// Caffe's fields that have no effect here.
void warn_meaningless(const pb::SolverParameter& solver, std::vector<std::string>& warnings) {
  struct Field {
    bool given;
    const char* name;
    const char* why;
  };
  const std::array fields{
      Field{solver.has_snapshot_format(), "snapshot_format", "checkpoints have one format"},
      Field{solver.has_snapshot_diff(), "snapshot_diff", "gradients are not saved"},
      Field{solver.has_device_id(), "device_id", "superseded by the worker's device setting"},
      Field{solver.has_debug_info(), "debug_info",
            "superseded by the worker's records (TensorBoard, timeline)"},
      Field{solver.has_layer_wise_reduce(), "layer_wise_reduce",
            "superseded by the worker's overlap setting"},
      Field{solver.has_test_compute_loss(), "test_compute_loss",
            "a test computes its losses in any case"},
  };
  for (const Field& field : fields) {
    if (field.given) warnings.push_back(fmt::format("{}: {}", field.name, field.why));
  }
}

std::vector<std::string> warnings_of(const pb::SolverParameter& solver, const Policy& policy,
                                     const math::RuleInfo& rule) {
  std::vector<std::string> warnings;
  if (solver.has_solver_mode()) {
    warnings.push_back(fmt::format("solver_mode {}: superseded by the worker's device setting",
                                   pb::SolverParameter::SolverMode_Name(solver.solver_mode())));
  }
  warn_meaningless(solver, warnings);
  const auto by_policy = [&](const char* field, bool given, bool read) {
    warn_unread("lr_policy", policy.name, field, given, read, warnings);
  };
  by_policy("gamma", solver.has_gamma(), policy.gamma);
  by_policy("power", solver.has_power(), policy.power);
  by_policy("stepsize", solver.has_stepsize(), policy.stepsize);
  by_policy("stepvalue", solver.stepvalue_size() > 0, policy.stepvalue);
  const auto by_type = [&](const char* field, bool given, bool read) {
    warn_unread("type", rule.name, field, given, read, warnings);
  };
  by_type("momentum2", solver.has_momentum2(), rule.reads.momentum2);
  by_type("delta", solver.has_delta(), rule.reads.delta);
  by_type("rms_decay", solver.has_rms_decay(), rule.reads.rms_decay);
  by_type("trust_coefficient", solver.has_trust_coefficient(), rule.reads.trust_coefficient);
  by_type("ftrl_beta", solver.has_ftrl_beta(), rule.reads.ftrl);
  by_type("ftrl_l1", solver.has_ftrl_l1(), rule.reads.ftrl);
  by_type("ftrl_l2", solver.has_ftrl_l2(), rule.reads.ftrl);
  return warnings;
}

}  // namespace

Result<void> upgrade_solver(pb::SolverParameter& solver) {
  if (!solver.has_solver_type()) return ok();
  const std::string older = pb::SolverParameter::SolverType_Name(solver.solver_type());
  if (solver.has_type()) {
    return invalid(
        fmt::format("solver_type {} is the older spelling of type, but type \"{}\" is given too: "
                    "give one of them",
                    older, solver.type()));
  }
  // Their names differ in case only.
  for (const math::RuleInfo& rule : math::rule_types()) {
    if (std::ranges::equal(older, rule.name, [](unsigned char a, unsigned char b) {
          return std::toupper(a) == std::toupper(b);
        })) {
      solver.set_type(std::string(rule.name));
    }
  }
  solver.clear_solver_type();
  return ok();
}

Result<std::vector<std::string>> check_solver(const pb::SolverParameter& solver) {
  TAUT_TRY(const Policy policy,
           find_entry("lr_policy", solver.lr_policy(), math::kLearningRatePolicies));
  TAUT_TRY(const math::RuleInfo rule, check_rule(solver));
  TAUT_TRY(check_learning_rate(solver, policy));
  TAUT_TRY(check_numbers(solver));
  TAUT_TRY(check_precision(solver));
  TAUT_TRY(check_course(solver));
  return warnings_of(solver, policy, rule);
}

}  // namespace taut::model
