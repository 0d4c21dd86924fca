#include <fmt/format.h>

#include <cstdint>
#include <memory>

#include "cli/commands/shared_options.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

struct FinishOptions {
  std::uint64_t job = 0;
  CoordinatorOption coordinator;
};

Result<std::string> finish(const FinishOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  return client.finish(JobId(options.job));
}

}  // namespace

void add_finish(Command& command, int& status) {
  auto options = std::make_shared<FinishOptions>();
  command.whole_number("JOB", options->job, "Number of the job, whose members are programs", 1)
      .required();
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    const Result<std::string> done = finish(*options);
    if (!done) {
      status = fail("finish", done.error().message);
      return;
    }
    fmt::print("{}\n", done.value());
  });
}

}  // namespace taut::cli
