#include "proto/config/job_state.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/did_you_mean.hpp"
#include "common/files/sha256.hpp"
#include "common/math/learning_rate.hpp"
#include "common/ssp/row_buckets.hpp"
#include "common/ssp/table_shape.hpp"
#include "common/thread_sanitizer.hpp"
#include "proto/config/net_state.hpp"

namespace taut {
namespace {

// protobuf makes the default text of a field at its first use, where ThreadSanitizer does not see
// what orders it: before there are threads.
[[maybe_unused]] const bool kHasDefaults =
    thread_sanitizer::kIsOn && !pb::FillerParameter::default_instance().type().empty();

std::string hash_of(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  Sha256 digest;
  digest.update(std::as_bytes(std::span(bytes)));
  return digest.finish();
}

Result<math::LearningRate> to_learning_rate(const pb::SolverParameter& solver) {
  constexpr auto& kPolicies = math::kLearningRatePolicies;
  const auto found =
      std::ranges::find(kPolicies, solver.lr_policy(), &math::LearningRatePolicy::name);
  if (found == kPolicies.end()) {
    std::vector<std::string_view> names;
    names.reserve(kPolicies.size());
    for (const math::LearningRatePolicy& policy : kPolicies) names.push_back(policy.name);
    return invalid(fmt::format("lr_policy \"{}\" is unknown; choose one of {}", solver.lr_policy(),
                               fmt::join(names, ", ")));
  }
  if (found->policy == math::LearningRate::Policy::kStep && solver.stepsize() <= 0) {
    return invalid(fmt::format("lr_policy \"step\" needs a stepsize greater than 0, not {}",
                               solver.stepsize()));
  }
  math::LearningRate rate;
  rate.policy = found->policy;
  rate.base = solver.base_lr();
  rate.gamma = solver.gamma();
  rate.power = solver.power();
  rate.step = solver.stepsize();
  rate.steps.assign(solver.stepvalue().begin(), solver.stepvalue().end());
  rate.horizon = std::max(1, solver.max_iter());
  rate.warmup = solver.warmup_iter();
  rate.warmup_base = solver.warmup_start_lr();
  return rate;
}

/// Errors    invalid: no such place
Result<std::optional<TensorPlace>> origin_from_wire(const pb::TableSpec& wire) {
  constexpr std::size_t kMaxPathBytes = 4096;
  constexpr std::size_t kDigestDigits = 64;
  const pb::TensorPlace& origin = wire.origin();
  const std::optional<ElementType> type = element_type(origin.element_type());
  const auto is_hex = [](unsigned char digit) { return std::isxdigit(digit) != 0; };
  const bool placed = !origin.file().empty() && origin.file().size() <= kMaxPathBytes &&
                      origin.sha256().size() == kDigestDigits &&
                      std::ranges::all_of(origin.sha256(), is_hex) &&
                      origin.offset() < (1ULL << 62U) && type && reads_as_floats(*type);
  if (!placed) {
    return invalid(fmt::format("table \"{}\": its origin is not a place in a file", wire.name()));
  }
  return TensorPlace{origin.file(), origin.sha256(), origin.offset(), *type};
}

/// Errors    invalid: not settled, or for tables of another shape
/// Errors    invalid: a table that cannot be kept by rows
Result<RowTable> rows_from_wire(const pb::TableSpec& wire, const TableSpec& table) {
  const pb::TableSpec::Rows& rows = wire.rows();
  const auto refuse = [&](const std::string& why) {
    return invalid(fmt::format("table \"{}\", which is kept by rows, {}", wire.name(), why));
  };
  if (table.shape.size() != 2) {
    return refuse(
        fmt::format("must have the shape rows x width, has {} extents", table.shape.size()));
  }
  if (table.width() > kMaxRowWidth) {
    return refuse(
        fmt::format("has rows of {} values; at most {} are allowed", table.width(), kMaxRowWidth));
  }
  if (table.kind != TableKind::kTrained || table.origin) {
    return refuse("must be trained and start from a filler");
  }
  if (rows.buckets() < 1 || rows.buckets() > kMaxBuckets) {
    return refuse(fmt::format("has {} buckets; it must have 1 to {}", rows.buckets(), kMaxBuckets));
  }
  if (rows.idle_clocks() < 0) {
    return refuse(
        fmt::format("drops rows after {} idle clocks; it must be at least 0", rows.idle_clocks()));
  }
  return RowTable{rows.buckets(), rows.max_rows(), rows.idle_clocks(), rows.clock_rows()};
}

Result<math::Filler> filler_from_wire(const pb::TableSpec& wire) {
  using Kind = math::Filler::Kind;
  const pb::FillerParameter& filler = wire.filler();
  const auto& shape = wire.shape();
  if (filler.type() == "constant") return math::Filler{Kind::kConstant, filler.value(), 0};
  if (filler.type() == "uniform") return math::Filler{Kind::kUniform, filler.min(), filler.max()};
  if (filler.type() == "gaussian") {
    math::Filler settled{Kind::kGaussian, filler.mean(), filler.std()};
    if (filler.sparse() == -1) return settled;
    if (filler.sparse() < 0 || shape.empty() || filler.sparse() > shape[0]) {
      return invalid(fmt::format("table \"{}\": its filler keeps {} weights of an input",
                                 wire.name(), filler.sparse()));
    }
    settled.sparse = filler.sparse();
    settled.outputs = shape[0];
    return settled;
  }
  if (filler.type() == "bilinear") {
    if (shape.size() == 4 && shape[2] == shape[3]) return math::bilinear(shape[3]);
    return invalid(
        fmt::format("table \"{}\": filler \"bilinear\" is for square kernels", wire.name()));
  }
  return invalid(
      fmt::format("table \"{}\": filler \"{}\" is not settled", wire.name(), filler.type()));
}

}  // namespace

Result<math::RuleInfo> check_rule(const pb::SolverParameter& solver) {
  std::vector<std::string_view> known;
  for (const math::RuleInfo& rule : math::rule_types()) known.push_back(rule.name);
  const std::optional<math::RuleKind> kind = math::rule_of_type(solver.type());
  if (!kind) {
    return invalid(fmt::format("type \"{}\" is unknown{}; known are {}", solver.type(),
                               did_you_mean(solver.type(), known), fmt::join(known, ", ")));
  }
  const math::RuleInfo& rule = math::info_of(*kind);
  if (!rule.reads.momentum && solver.momentum() != 0) {
    return invalid(
        fmt::format("momentum is {}: type {} has none; omit it", solver.momentum(), rule.name));
  }
  if (rule.norm == math::UpdateNorm::kRelative && solver.clip_gradients() > 0) {
    return invalid(fmt::format(
        "clip_gradients is {}: type {} scales each table's gradient by its norm; omit it",
        solver.clip_gradients(), rule.name));
  }
  if (rule.reads.ftrl && solver.weight_decay() != 0) {
    return invalid(fmt::format(
        "weight_decay is {}: type {} has its own terms; omit it and set ftrl_{}",
        solver.weight_decay(), rule.name, solver.regularization_type() == "L1" ? "l1" : "l2"));
  }
  return rule;
}

Result<void> check_rule_numbers(const pb::SolverParameter& solver) {
  enum class Range : std::uint8_t { kFromZero, kAboveZero, kFraction };
  struct Number {
    const char* field;
    float value;
    Range range;
  };
  const std::array numbers{
      Number{"base_lr", solver.base_lr(), Range::kFromZero},
      // With a factor of 1, a moving average would never change.
      Number{"momentum", solver.momentum(), Range::kFraction},
      Number{"rms_decay", solver.rms_decay(), Range::kFraction},
      Number{"trust_coefficient", solver.trust_coefficient(), Range::kAboveZero},
      Number{"momentum2", solver.momentum2(), Range::kFraction},
      Number{"delta", solver.delta(), Range::kAboveZero},
      Number{"weight_decay", solver.weight_decay(), Range::kFromZero},
      Number{"ftrl_beta", solver.ftrl_beta(), Range::kFromZero},
      Number{"ftrl_l1", solver.ftrl_l1(), Range::kFromZero},
      Number{"ftrl_l2", solver.ftrl_l2(), Range::kFromZero},
  };
  for (const Number& one : numbers) {
    const bool is_above = one.range == Range::kAboveZero ? one.value > 0 : one.value >= 0;
    const bool is_below = one.range != Range::kFraction || one.value < 1;
    if (is_above && is_below && std::isfinite(one.value)) continue;
    constexpr std::array kRequired{"at least 0", "greater than 0", "in [0, 1)"};
    return invalid(fmt::format("{} must be {}, is {}", one.field,
                               kRequired[static_cast<std::size_t>(one.range)], one.value));
  }
  return ok();
}

Result<math::UpdateRule> to_update_rule(const pb::SolverParameter& solver) {
  math::UpdateRule rule;
  TAUT_TRY(rule.rate, to_learning_rate(solver));
  TAUT_TRY(const math::RuleInfo info, check_rule(solver));
  rule.kind = *math::rule_of_type(info.name);
  if (rule.kind == math::RuleKind::kSgd && solver.momentum() > 0) {
    rule.kind = math::RuleKind::kMomentum;
  }
  rule.momentum = solver.momentum();
  rule.momentum2 = solver.momentum2();
  rule.delta = solver.delta();
  rule.rms_decay = solver.rms_decay();
  rule.trust_coefficient = solver.trust_coefficient();
  rule.ftrl_beta = solver.ftrl_beta();
  rule.ftrl_l1 = solver.ftrl_l1();
  rule.ftrl_l2 = solver.ftrl_l2();
  rule.weight_decay = solver.weight_decay();
  if (solver.regularization_type() == "L1") {
    rule.regularization = math::Regularization::kL1;
  } else if (solver.regularization_type() != "L2") {
    return invalid(fmt::format("regularization_type \"{}\" is unknown; choose L1 or L2",
                               solver.regularization_type()));
  }
  rule.clip_norm = solver.clip_gradients();
  return rule;
}

namespace {

/// Momentum that looks ahead is Nesterov's form, with another distance.
Result<void> look_ahead(math::UpdateRule& rule, const std::string& type) {
  const bool heavy_ball = rule.kind == math::RuleKind::kMomentum;
  if (!heavy_ball && (rule.kind != math::RuleKind::kNesterov || !(rule.momentum > 0))) {
    return invalid(
        fmt::format("consistency: look_ahead follows the velocity of solver type SGD or Nesterov "
                    "with momentum above 0; the solver has type {}, momentum {}",
                    type, rule.momentum));
  }
  rule.kind = math::RuleKind::kNesterov;
  if (heavy_ball) rule.steps_ahead = 0;
  rule.looks_ahead = true;
  return ok();
}

}  // namespace

Result<math::UpdateRule> to_update_rule(const pb::Job& job) {
  const pb::SolverParameter& solver = job.solver_param();
  TAUT_TRY(math::UpdateRule rule, to_update_rule(solver));
  if (job.consistency().look_ahead()) {
    TAUT_TRY(look_ahead(rule, solver.type()));
  }
  if (solver.lr_reference_batch() <= 0) return rule;
  const auto batch = batch_of_text(job);
  if (!batch) {
    return invalid(fmt::format("lr_reference_batch is {}: {}", solver.lr_reference_batch(),
                               batch.error().message));
  }
  const double items = static_cast<double>(batch.value()) * std::max(1, solver.iter_size());
  const double scale = items / solver.lr_reference_batch();
  if (job.global_batch()) {
    rule.rate.base *= scale;
  } else {
    rule.rate_per_member = scale;
  }
  return rule;
}

Result<Membership> to_membership(const pb::ServerJob& job) {
  std::vector<Member> members;
  for (const pb::Member& wire : job.members()) {
    members.push_back({WorkerId(wire.worker()), Incarnation(wire.incarnation()),
                       Clock(wire.join_clock()), Clock(wire.leave_clock()), wire.fenced(),
                       wire.finished()});
  }
  std::map<Clock, ApplyMode> modes;
  for (const pb::ModeChange& change : job.modes()) {
    modes[Clock(change.first_clock())] =
        change.mode() == pb::ModeChange::AGGREGATE ? ApplyMode::kAggregate : ApplyMode::kOnArrival;
  }
  if (modes.empty() || modes.begin()->first > Clock(0)) {
    return invalid(fmt::format("job {}: no mode is named from clock 0 on", job.job()));
  }
  return Membership(EpochId(job.epoch()), std::move(members), std::move(modes));
}

pb::TableSpec to_wire(const TableSpec& table) {
  pb::TableSpec wire;
  wire.set_table(table.id.value());
  wire.set_name(table.name);
  for (const std::int64_t extent : table.shape) wire.add_shape(extent);
  wire.set_kind(static_cast<pb::TableSpec::Kind>(table.kind));
  pb::FillerParameter& filler = *wire.mutable_filler();
  switch (table.filler.kind) {
    case math::Filler::Kind::kConstant:
      filler.set_type("constant");
      filler.set_value(table.filler.a);
      break;
    case math::Filler::Kind::kUniform:
      filler.set_type("uniform");
      filler.set_min(table.filler.a);
      filler.set_max(table.filler.b);
      break;
    case math::Filler::Kind::kGaussian:
      filler.set_type("gaussian");
      filler.set_mean(table.filler.a);
      filler.set_std(table.filler.b);
      if (table.filler.sparse >= 0) filler.set_sparse(table.filler.sparse);
      break;
    case math::Filler::Kind::kBilinear:  // the shape implies the rest
      filler.set_type("bilinear");
      break;
  }
  wire.set_lr_mult(table.lr_mult);
  wire.set_decay_mult(table.decay_mult);
  if (table.origin) {
    pb::TensorPlace& origin = *wire.mutable_origin();
    origin.set_file(table.origin->file);
    origin.set_sha256(table.origin->sha256);
    origin.set_offset(table.origin->offset);
    origin.set_element_type(std::string(to_string(table.origin->type)));
  }
  if (table.rows) {
    pb::TableSpec::Rows& rows = *wire.mutable_rows();
    rows.set_buckets(table.rows->buckets);
    rows.set_max_rows(table.rows->max_rows);
    rows.set_idle_clocks(table.rows->idle_clocks);
    rows.set_clock_rows(table.rows->clock_rows);
  }
  return wire;
}

Result<TableSpec> from_wire(const pb::TableSpec& wire) {
  TableSpec table;
  table.id = TableId(wire.table());
  table.name = wire.name();
  table.shape.assign(wire.shape().begin(), wire.shape().end());
  if (const auto count = count_of(table.shape); !count) {
    return invalid(fmt::format("table \"{}\" {}", wire.name(), count.error().message));
  }
  if (!pb::TableSpec::Kind_IsValid(wire.kind())) {
    return invalid(fmt::format("table \"{}\": kind {} is unknown", wire.name(),
                               static_cast<int>(wire.kind())));
  }
  table.kind = static_cast<TableKind>(wire.kind());
  TAUT_TRY(table.filler, filler_from_wire(wire));
  table.lr_mult = wire.lr_mult();
  table.decay_mult = wire.decay_mult();
  if (wire.has_origin()) {
    TAUT_TRY(table.origin, origin_from_wire(wire));
  }
  if (wire.has_rows()) {
    TAUT_TRY(table.rows, rows_from_wire(wire, table));
  }
  return table;
}

std::string tables_hash(const std::vector<TableSpec>& tables) {
  pb::OpenTables named;
  for (const TableSpec& table : tables) *named.add_tables() = to_wire(table);
  return hash_of(named);
}

std::string job_hash(const pb::Job& definition) {
  return hash_of(definition);
}

}  // namespace taut
