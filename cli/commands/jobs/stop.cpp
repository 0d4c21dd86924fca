#include <fmt/format.h>

#include <cstdint>
#include <memory>

#include "cli/commands/shared_options.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

struct StopOptions {
  std::uint64_t job = 0;
  bool discard = false;
  CoordinatorOption coordinator;
};

Result<std::string> stop(const StopOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  return client.stop(JobId(options.job), options.discard);
}

}  // namespace

void add_stop(Command& command, int& status) {
  auto options = std::make_shared<StopOptions>();
  command.whole_number("JOB", options->job, "Number of the job", 1).required();
  command.flag("--discard", options->discard, "Ends it at once; otherwise it is saved first");
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    const Result<std::string> done = stop(*options);
    if (!done) {
      status = fail("stop", done.error().message);
      return;
    }
    fmt::print("{}\n",
               done.value().empty() ? fmt::format("job {}: stopping", options->job) : done.value());
  });
}

}  // namespace taut::cli
