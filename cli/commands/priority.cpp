#include <cstdint>
#include <memory>

#include "cli/commands/change_queue.hpp"

namespace taut::cli {
namespace {

struct PriorityChange {
  QueueChange change;
  double priority = 0;
};

}  // namespace

void add_priority(Command& command, int& status) {
  constexpr double kMaxPriority = 1000;
  auto typed = std::make_shared<PriorityChange>();
  command.whole_number("JOB", typed->change.job, "Number of the job", 1).required();
  command
      .number("PRIORITY", typed->priority, "The higher goes first; jobs have 0 unless they say so",
              "NUMBER", {.min = -kMaxPriority, .max = kMaxPriority})
      .required();
  add_queue_change(command, status, std::shared_ptr<QueueChange>(typed, &typed->change),
                   [typed](ControlClient& client, JobId job) {
                     return client.set_priority(job, static_cast<std::int32_t>(typed->priority));
                   });
}

}  // namespace taut::cli
