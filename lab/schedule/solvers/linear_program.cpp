#include "lab/schedule/solvers/linear_program.hpp"

#include <glpk.h>

#include <cmath>

namespace taut::schedule {

struct LinearProgram::Problem {
  glp_prob* program = glp_create_prob();
  Problem() { glp_set_obj_dir(program, GLP_MAX); }
  ~Problem() { glp_delete_prob(program); }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
};

LinearProgram::LinearProgram() : problem_(std::make_unique<Problem>()) {}
LinearProgram::~LinearProgram() = default;

std::size_t LinearProgram::add_variable(double in_objective, double max) {
  const int column = glp_add_cols(problem_->program, 1);
  const bool limited = std::isfinite(max);
  glp_set_col_bnds(problem_->program, column, limited ? GLP_DB : GLP_LO, 0, limited ? max : 0);
  glp_set_obj_coef(problem_->program, column, in_objective);
  return static_cast<std::size_t>(column - 1);
}

void LinearProgram::add_row(const std::vector<Term>& terms, double min, double max) {
  const int row = glp_add_rows(problem_->program, 1);
  const int kind = !std::isfinite(min) ? GLP_UP : !std::isfinite(max) ? GLP_LO : GLP_DB;
  glp_set_row_bnds(problem_->program, row, kind, std::isfinite(min) ? min : 0,
                   std::isfinite(max) ? max : 0);
  // GLPK numbers from 1.
  std::vector<int> columns = {0};
  std::vector<double> factors = {0};
  for (const Term& term : terms) {
    columns.push_back(static_cast<int>(term.variable) + 1);
    factors.push_back(term.factor);
  }
  glp_set_mat_row(problem_->program, row, static_cast<int>(terms.size()), columns.data(),
                  factors.data());
}

std::vector<double> LinearProgram::maximize() {
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.presolve = GLP_ON;
  glp_prob* const program = problem_->program;
  if (glp_simplex(program, &options) != 0 || glp_get_status(program) != GLP_OPT) return {};
  std::vector<double> values;
  for (int column = 1; column <= glp_get_num_cols(program); ++column) {
    values.push_back(glp_get_col_prim(program, column));
  }
  return values;
}

}  // namespace taut::schedule
