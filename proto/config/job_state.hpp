#pragma once

#include <string>
#include <vector>

#include "common/math/update_rules.hpp"
#include "common/result.hpp"
#include "common/ssp/membership.hpp"
#include "common/ssp/table.hpp"
#include "proto/control.pb.h"
#include "proto/data.pb.h"
#include "proto/solver.pb.h"

namespace taut {

/// The rule that a solver's type names.
/// Errors    invalid: an unknown type, momentum or clip_gradients that it cannot be combined with
[[nodiscard]] Result<math::RuleInfo> check_rule(const pb::SolverParameter& solver);

/// Checks the numbers of a solver's rule.
/// Errors    invalid: a number that is out of its range
[[nodiscard]] Result<void> check_rule_numbers(const pb::SolverParameter& solver);

/// A solver's update rule in native form.
/// Errors    as check_rule(), and an unknown policy or regularization
[[nodiscard]] Result<math::UpdateRule> to_update_rule(const pb::SolverParameter& solver);

/// Overload for a whole job: with lr_reference_batch, the base rate follows the items of an
/// iteration of all members.
/// Errors    also invalid: a net whose batch is not known from its text
[[nodiscard]] Result<math::UpdateRule> to_update_rule(const pb::Job& job);

/// The members of a job and how updates are applied.
[[nodiscard]] Result<Membership> to_membership(const pb::ServerJob& job);

[[nodiscard]] pb::TableSpec to_wire(const TableSpec& table);
/// Errors    invalid: extents that are not positive, too many elements, an unknown filler
[[nodiscard]] Result<TableSpec> from_wire(const pb::TableSpec& table);
/// The identity of a job's list of tables in OpenTables: SHA-256 over their messages, in hex.
[[nodiscard]] std::string tables_hash(const std::vector<TableSpec>& tables);

/// The identity of a job in a hello: SHA-256 over its definition, in hex.
[[nodiscard]] std::string job_hash(const pb::Job& definition);

}  // namespace taut
