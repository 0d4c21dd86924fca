#include "cli/commands/jobs/change_queue.hpp"

#include <fmt/format.h>

namespace taut::cli {
namespace {

Result<std::string> run(const QueueChange& change,
                        const std::function<Result<std::string>(ControlClient&, JobId)>& act) {
  TAUT_TRY(auto client, change.coordinator.connect());
  return act(client, JobId(change.job));
}

}  // namespace

void add_queue_change(Command& command, int& status, const std::shared_ptr<QueueChange>& change,
                      const std::function<Result<std::string>(ControlClient&, JobId)>& act) {
  change->coordinator.add_to(command);
  command.on_run([change, act, name = command.name(), &status] {
    const auto done = run(*change, act);
    if (done) {
      fmt::print("{}\n", done.value());
    } else {
      status = fail(name, done.error().message);
    }
  });
}

}  // namespace taut::cli
