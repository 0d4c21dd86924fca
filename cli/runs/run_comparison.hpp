#pragma once

#include <string>
#include <vector>

#include "cli/runs/run_record.hpp"
#include "common/result.hpp"

namespace taut::cli {

/// A field in which two jobs differ.
struct FieldDifference {
  std::string field;  // e.g. "solver_param.base_lr"
  std::string first;  // its value; empty: not given
  std::string second;
};

/// A figure of two runs, as text.
struct FigurePair {
  std::string what;
  std::string first;
  std::string second;
  std::string difference;  // empty: not meaningful
};

struct RunComparison {
  RunRecord first;
  RunRecord second;
  std::vector<FieldDifference> fields;
  std::vector<FigurePair> figures;
};

/// Errors    a run's job.textproto cannot be read
[[nodiscard]] Result<RunComparison> compare(const RunRecord& first, const RunRecord& second);

[[nodiscard]] std::vector<std::string> comparison_lines(const RunComparison& comparison);
/// One page that needs no network: fields, figures, and the curves of both runs.
[[nodiscard]] std::string comparison_html(const RunComparison& comparison);

}  // namespace taut::cli
