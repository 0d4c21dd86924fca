#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

namespace taut::schedule {

/// A linear program that is built and solved once: variables from 0 on, rows of them with limits,
/// the largest value of an objective. Solved by GLPK's simplex, which gives the same solution for
/// the same program.
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

  /// A variable from 0 to `max`, with its factor in the objective. Numbered from 0.
  std::size_t add_variable(double in_objective, double max = kNoLimit);
  /// min <= sum of the terms <= max. REQUIRES at least one limit.
  void add_row(const std::vector<Term>& terms, double min, double max);
  /// The values of the variables; empty if no values satisfy all rows.
  [[nodiscard]] std::vector<double> maximize();

 private:
  struct Problem;
  std::unique_ptr<Problem> problem_;
};

}  // namespace taut::schedule
