#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/commands/shared_options.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {

/// The job of a command that changes the queue, and where the coordinator is.
struct QueueChange {
  std::uint64_t job = 0;
  CoordinatorOption coordinator;
};

/// Adds both options, and `act`, which the command calls once connected: it returns the line to
/// print.
void add_queue_change(Command& command, int& status, const std::shared_ptr<QueueChange>& change,
                      const std::function<Result<std::string>(ControlClient&, JobId)>& act);

}  // namespace taut::cli
