#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

namespace taut::schedule {

/// A linear program that is built and solved once: variables that are at least 0, rows of them with
/// limits, and an objective to maximize. Solved by GLPK's simplex, which gives the same solution
/// for the same program.
class LinearProgram {
 public:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  struct Term {
    std::size_t variable;
    double factor;
  };

  LinearProgram();
  ~LinearProgram();
  LinearProgram(const LinearProgram&) = delete;
  LinearProgram& operator=(const LinearProgram&) = delete;

  /// Adds a variable between 0 and `max`, with its factor in the objective. Numbered from 0.
  std::size_t add_variable(double in_objective, double max = kNoLimit);
  /// Adds min <= sum of the terms <= max. REQUIRES at least one limit.
  void add_row(const std::vector<Term>& terms, double min, double max);
  /// The values of the variables; empty if no values satisfy all rows.
  [[nodiscard]] std::vector<double> maximize();

 private:
  struct Problem;
  std::unique_ptr<Problem> problem_;
};

}  // namespace taut::schedule
