#include "proto/config/external_job.hpp"

#include <fmt/format.h>

#include <string_view>

#include "proto/config/job_state.hpp"
#include "proto/config/settle_averaging.hpp"

namespace taut {
namespace {

/// The first field that only a job with a net has; empty if there is none.
std::string_view net_field(const pb::Job& job) {
  if (job.has_net() || job.has_net_param() || job.solver_param().has_net()) return "net";
  if (job.data_size() > 0) return "data";
  if (job.weights_size() > 0) return "weights";
  if (job.global_batch()) return "global_batch";
  if (job.straggler_size() > 0) return "straggler";
  if (job.clock_time_ms() != 0) return "clock_time_ms";
  return {};
}

}  // namespace

bool is_seeded(const pb::Job& job) {
  return job.external_members() && job.tables().empty();
}

Clock first_step(const pb::Job& job) {
  return Clock(job.external_members() ? kFirstExternalClock : 0);
}

Clock first_update(const pb::Job& job) {
  return is_seeded(job) ? Clock(0) : first_step(job);
}

Clock end_clock(const pb::Job& job) {
  return job.external_members() ? Clock::never() : Clock(job.solver_param().max_iter());
}

Result<void> check_external_members(const pb::Job& job) {
  if (!job.external_members()) return ok();
  if (const std::string_view field = net_field(job); !field.empty()) {
    return invalid(
        fmt::format("external_members: the job has {0} as well, and its members are programs of "
                    "their own; omit {0}, or external_members",
                    field));
  }
  if (job.workers() < 1) {
    return invalid(
        "workers: a job with external_members must say how many there are at most, at least 1");
  }
  if (job.consistency().has_elastic_averaging()) {
    return invalid(
        "consistency: elastic_averaging trains at the worker, which external members do "
        "themselves; omit it");
  }
  TAUT_TRY(check_rule_numbers(job.solver_param()));
  TAUT_TRY(const math::UpdateRule rule, to_shard_rule(job));
  if (rule.update_norm() == math::UpdateNorm::kNone) return ok();
  return invalid(fmt::format(
      "solver: {} needs the norm of each member's gradients, which external members "
      "do not send; {}",
      rule.clip_norm > 0 ? "clip_gradients" : "type LARS",
      rule.clip_norm > 0 ? "let the members clip, and omit it" : "choose another type"));
}

}  // namespace taut
