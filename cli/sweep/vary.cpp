#include "cli/sweep/vary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <set>
#include <sstream>

#include "cli/sweep/job_field.hpp"
#include "common/math/philox.hpp"
#include "proto/config/text.hpp"

namespace taut::cli {
namespace {

constexpr std::size_t kMaxSettings = 1000;
/// Draws without a new setting after which the sweep is refused.
constexpr std::uint64_t kMaxRepeats = 10000;

/// One of the varied fields.
struct Axis {
  const pb::SweepVary* vary;
  FieldKind kind;
  std::vector<std::string> values;  // empty: a range without steps
};

std::string text_of(double value, FieldKind kind) {
  if (kind != FieldKind::kWholeNumber) return fmt::format("{:.6g}", value);
  return fmt::format("{:.0f}", std::round(value));
}

/// share    from 0, the range's lowest value, to 1
double value_at(const pb::SweepRange& range, double share) {
  if (!range.logarithmic()) return range.low() + share * (range.high() - range.low());
  return range.low() * std::pow(range.high() / range.low(), share);
}

/// What is wrong with a field's values; empty if nothing is.
std::string problem_of(const pb::SweepVary& vary, FieldKind kind, bool is_drawn) {
  const int given =
      (vary.value_size() > 0 ? 1 : 0) + (vary.word_size() > 0 ? 1 : 0) + (vary.has_range() ? 1 : 0);
  if (given != 1) {
    return given == 0 ? "has no values: give value, word or range"
                      : "has values of several kinds: give value, word or range";
  }
  if (!vary.has_range()) return {};
  const pb::SweepRange& range = vary.range();
  if (kind == FieldKind::kWord) return "has no numbers, so it has no range: give word";
  if (!range.has_low() || !range.has_high() || !std::isfinite(range.low()) ||
      !std::isfinite(range.high()) || range.low() >= range.high()) {
    return fmt::format("range: low must be less than high, is {:g} to {:g}", range.low(),
                       range.high());
  }
  if (range.logarithmic() && range.low() <= 0) {
    return fmt::format("range: low must be greater than 0 where it is logarithmic, is {:g}",
                       range.low());
  }
  if (is_drawn) return {};
  if (!range.has_steps()) return "range: a grid requires steps, e.g. steps: 5; or give draws";
  if (range.steps() < 2 || range.steps() > kMaxSettings) {
    return fmt::format("range: steps must be from 2 to {}, is {}", kMaxSettings, range.steps());
  }
  return {};
}

std::vector<std::string> values_of(const pb::SweepVary& vary, FieldKind kind) {
  std::vector<std::string> values(vary.word().begin(), vary.word().end());
  for (const double value : vary.value()) values.push_back(fmt::format("{}", value));
  if (!vary.has_range()) return values;
  const double last = static_cast<double>(vary.range().steps()) - 1;
  for (std::uint32_t i = 0; i < vary.range().steps(); ++i) {
    const std::string value = text_of(value_at(vary.range(), i / last), kind);
    // Steps that are rounded to the same whole number are one value.
    if (values.empty() || values.back() != value) values.push_back(value);
  }
  return values;
}

/// The sweep has other fields for these.
std::string axis_instead(const std::string& path) {
  if (path == "workers") return "workers";
  if (path == "seed" || path == "solver.random_seed") return "seeds";
  if (path == "consistency.mode" || path == "consistency.slack") return "slack";
  return {};
}

/// The field's values, after trying them on a copy of the job.
Result<Axis> axis_of(const pb::SweepVary& vary, const pb::Job& job, bool is_drawn) {
  const std::string& path = vary.field();
  if (path.empty()) return invalid("vary: has no field, e.g. field: \"solver.base_lr\"");
  if (const std::string instead = axis_instead(path); !instead.empty()) {
    return invalid(
        fmt::format("vary: {}: is an axis of the sweep by itself: use {}", path, instead));
  }
  Axis axis{&vary, FieldKind::kWord, {}};
  const auto named = [](const std::string& what) { return invalid("vary: " + what); };
  const auto kind = job_field_kind(path, job);
  if (!kind) return named(kind.error().message);
  axis.kind = kind.value();
  if (const std::string problem = problem_of(vary, axis.kind, is_drawn); !problem.empty()) {
    return named(path + ": " + problem);
  }
  if (!is_drawn || !vary.has_range()) axis.values = values_of(vary, axis.kind);
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    pb::Job copy = job;
    const auto set = set_job_field(path, value, copy);
    if (!set) return named(set.error().message);
    if (!seen.insert(value).second) {
      return named(fmt::format("{}: {} is given twice", path, value));
    }
  }
  return axis;
}

/// Every combination; the last field varies fastest.
std::vector<Setting> grid_of(const std::vector<Axis>& axes) {
  std::vector<Setting> settings(1);
  for (const Axis& axis : axes) {
    std::vector<Setting> longer;
    for (const Setting& setting : settings) {
      for (const std::string& value : axis.values) {
        longer.push_back(setting);
        longer.back().push_back(value);
      }
    }
    settings = std::move(longer);
  }
  return settings;
}

/// Uniform in [0, 1), with 53 bits.
double share_of(const math::Philox& random) {
  const auto high = static_cast<double>(random.words[0] >> 5U);
  const auto low = static_cast<double>(random.words[1] >> 6U);
  return (high * 0x1.0p26 + low) * 0x1.0p-53;
}

/// A function of only the seed, the field and the draw's number.
std::string drawn_value(const Axis& axis, std::uint64_t seed, std::uint64_t draw) {
  const std::string& path = axis.vary->field();
  const double share =
      share_of(math::Philox::at(seed, math::name_stream(path.data(), path.size()), draw));
  if (!axis.values.empty()) {
    return axis.values[static_cast<std::size_t>(share * static_cast<double>(axis.values.size()))];
  }
  const double value = value_at(axis.vary->range(), share);
  return axis.kind == FieldKind::kWholeNumber ? text_of(value, axis.kind)
                                              : fmt::format("{:.4g}", value);
}

Result<std::vector<Setting>> draws_of(const std::vector<Axis>& axes, const pb::Sweep& sweep) {
  std::vector<Setting> settings;
  std::set<Setting> seen;
  std::uint64_t repeats = 0;
  for (std::uint64_t draw = 0; settings.size() < sweep.draws(); ++draw) {
    Setting setting;
    for (const Axis& axis : axes) setting.push_back(drawn_value(axis, sweep.draw_seed(), draw));
    if (seen.insert(setting).second) {
      settings.push_back(std::move(setting));
    } else if (++repeats > kMaxRepeats) {
      return invalid(
          fmt::format("draws: {} are more than there are different settings: {} were found",
                      sweep.draws(), settings.size()));
    }
  }
  return settings;
}

std::size_t combinations_of(const std::vector<Axis>& axes) {
  std::size_t count = 1;
  for (const Axis& axis : axes) {
    count *= axis.values.size();
    if (count > kMaxSettings) break;
  }
  return count;
}

bool is_number(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return !text.empty() && error == std::errc() && stopped == end;
}

/// After the last '.' that is not in a layer's name.
std::string last_part(const std::string& path) {
  std::size_t start = 0;
  bool is_name = false;
  for (std::size_t at = 0; at < path.size(); ++at) {
    if (path[at] == '[' || path[at] == ']') is_name = path[at] == '[';
    if (path[at] == '.' && !is_name) start = at + 1;
  }
  return path.substr(start);
}

}  // namespace

Result<pb::SweepVary> parse_vary(const std::string& text, const std::string& option) {
  pb::SweepVary vary;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || text.substr(0, equals).find(':') != std::string::npos) {
    if (text.find(':') == std::string::npos) {
      return invalid(
          fmt::format("{}: must be FIELD=VALUE,..., e.g. solver.base_lr=0.01,0.1, is "
                      "\"{}\"",
                      option, text));
    }
    TAUT_TRY(parse_text(text, option, vary));
    return vary;
  }
  vary.set_field(text.substr(0, equals));
  std::vector<std::string> values;
  std::istringstream parts(text.substr(equals + 1));
  for (std::string part; std::getline(parts, part, ',');) values.push_back(part);
  const bool is_numbers = std::ranges::all_of(values, is_number);
  for (const std::string& value : values) {
    if (is_numbers) {
      vary.add_value(std::stod(value));
    } else {
      vary.add_word(value);
    }
  }
  return vary;
}

Result<std::vector<Setting>> settings_of(const pb::Sweep& sweep, const pb::Job& job) {
  if (sweep.has_draws() && sweep.vary().empty()) {
    return invalid("draws: nothing is varied, so there is nothing to draw: give vary");
  }
  if (sweep.has_draws() && (sweep.draws() < 1 || sweep.draws() > kMaxSettings)) {
    return invalid(fmt::format("draws: must be from 1 to {}, is {}", kMaxSettings, sweep.draws()));
  }
  std::vector<Axis> axes;
  std::string problems;
  std::set<std::string> seen;
  for (const pb::SweepVary& vary : sweep.vary()) {
    auto axis = axis_of(vary, job, sweep.has_draws());
    if (axis && !seen.insert(vary.field()).second) {
      axis = invalid(fmt::format("vary: {} is named twice", vary.field()));
    }
    if (axis) {
      axes.push_back(std::move(axis.value()));
    } else {
      problems += (problems.empty() ? "" : "\n") + axis.error().message;
    }
  }
  if (!problems.empty()) return invalid(problems);
  if (sweep.has_draws()) return draws_of(axes, sweep);
  if (const std::size_t count = combinations_of(axes); count > kMaxSettings) {
    return invalid(fmt::format(
        "vary: there are more than {} combinations; give fewer values, or draws", kMaxSettings));
  }
  return grid_of(axes);
}

std::vector<std::string> short_names(const pb::Sweep& sweep) {
  std::vector<std::string> names;
  for (const pb::SweepVary& vary : sweep.vary()) names.push_back(last_part(vary.field()));
  const std::vector<std::string> parts = names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::ranges::count(parts, parts[i]) > 1) names[i] = sweep.vary(static_cast<int>(i)).field();
  }
  return names;
}

}  // namespace taut::cli
