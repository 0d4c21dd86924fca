#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "cli/commands/job_arguments.hpp"
#include "cli/commands/shared_options.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

struct SetSlackOptions {
  std::uint64_t job = 0;
  std::optional<Slack> slack;
  CoordinatorOption coordinator;
};

Result<std::string> set_slack(const SetSlackOptions& options, Slack slack) {
  TAUT_TRY(auto client, options.coordinator.connect());
  return client.set_slack(JobId(options.job), slack);
}

}  // namespace

void add_set_slack(Command& command, int& status) {
  auto options = std::make_shared<SetSlackOptions>();
  command.whole_number("JOB", options->job, "Number of the job", 1).required();
  slack_option(command, "SLACK", options->slack, "Clocks (0 is BSP), or async for no bound")
      .required();
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    const Slack slack = *options->slack;
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
