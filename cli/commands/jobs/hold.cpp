#include <memory>

#include "cli/commands/jobs/change_queue.hpp"

namespace taut::cli {

void add_hold(Command& command, int& status) {
  auto change = std::make_shared<QueueChange>();
  command.whole_number("JOB", change->job, "Number of a job that waits", 1).required();
  add_queue_change(command, status, change,
                   [](ControlClient& client, JobId job) { return client.hold(job, true); });
}

}  // namespace taut::cli
