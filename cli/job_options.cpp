#include "cli/job_options.hpp"

#include <charconv>
#include <system_error>

namespace taut::cli {
namespace {

pb::Consistency::Mode mode_of(Slack slack) {
  if (slack.is_unbounded()) return pb::Consistency::ASYNC;
  return slack == Slack(0) ? pb::Consistency::BSP : pb::Consistency::SSP;
}

}  // namespace

void put_over(const JobOptions& options, pb::Job& job) {
  if (options.mode || options.slack) {
    pb::Consistency& consistency = *job.mutable_consistency();
    consistency.set_mode(options.slack ? mode_of(*options.slack) : *options.mode);
    if (options.slack && !options.slack->is_unbounded()) {
      consistency.set_slack(static_cast<std::uint32_t>(options.slack->clocks()));
    }
    // Only a bound has a number.
    if (consistency.mode() != pb::Consistency::SSP) consistency.clear_slack();
  }
  if (options.max_iter) job.mutable_solver_param()->set_max_iter(*options.max_iter);
  if (options.seed) {
    job.set_seed(*options.seed);
    job.mutable_solver_param()->clear_random_seed();
  }
  if (options.workers) job.set_workers(*options.workers);
  if (!options.data.empty()) {
    job.clear_data();
    job.add_data()->set_folder(options.data);
  }
  if (!options.resume.empty()) job.set_resume(options.resume);
  for (const pb::Straggler& straggler : options.stragglers) *job.add_straggler() = straggler;
  if (!options.weights.empty()) job.clear_weights();
  for (const std::string& file : options.weights) job.add_weights(file);
  if (options.clock_time_ms) job.set_clock_time_ms(*options.clock_time_ms);
}

std::optional<Slack> parse_slack(const std::string& text) {
  if (text == "async") return Slack::unbounded();
  std::uint32_t clocks = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, clocks);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return Slack(clocks);
}

}  // namespace taut::cli
