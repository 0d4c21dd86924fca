#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/control_client.hpp"

namespace taut::cli {
namespace {

struct SetSlackOptions {
  std::uint64_t job = 0;
  std::string slack;
  CoordinatorOption coordinator;
};

/// Throws CLI::ValidationError.
Slack parse_slack(const std::string& text) {
  if (text == "async") return Slack::unbounded();
  std::uint32_t clocks = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, clocks);
  if (error != std::errc() || stopped != end) {
    throw CLI::ValidationError(
        "SLACK", fmt::format("\"{}\" is neither a number of clocks from 0 on nor async", text));
  }
  return Slack(clocks);
}

Result<std::string> set_slack(const SetSlackOptions& options, Slack slack) {
  TAUT_TRY(const std::string address, options.coordinator.resolve());
  TAUT_TRY(auto client, connect_control(address, options.coordinator.wait_s));
  return client.set_slack(JobId(options.job), slack);
}

}  // namespace

void add_set_slack(CLI::App& app, int& status) {
  auto options = std::make_shared<SetSlackOptions>();
  CLI::App* command =
      app.add_subcommand("set-slack", "Changes how far a running job's workers may be apart");
  command->add_option("JOB", options->job, "Number of the job")
      ->required()
      ->check(CLI::PositiveNumber);
  command->add_option("SLACK", options->slack, "Clocks (0 is BSP), or async for no bound")
      ->required();
  options->coordinator.add_to(*command);
  command->footer("Example: tautline set-slack 3 2");
  command->callback([options, &status] {
    const Slack slack = parse_slack(options->slack);
    const Result<std::string> done = set_slack(*options, slack);
    if (!done) {
      status = fail("set-slack", done.error().message);
      return;
    }
    fmt::print("{}\n", done.value().empty()
                           ? fmt::format("job {}: slack {}", options->job, slack.to_string())
                           : done.value());
  });
}

}  // namespace taut::cli
