#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/views/queue_view.hpp"
#include "cli/views/terminal.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

Result<void> show(const CoordinatorOption& coordinator) {
  TAUT_TRY(auto client, coordinator.connect());
  TAUT_TRY(const pb::StatusReply status, client.status());
  print_lines(queue_lines(status));
  return ok();
}

}  // namespace

void add_queue(Command& command, int& status) {
  auto coordinator = std::make_shared<CoordinatorOption>();
  coordinator->add_to(command);
  command.on_run([coordinator, &status] {
    const auto shown = show(*coordinator);
    if (!shown) status = fail("queue", shown.error().message);
  });
}

}  // namespace taut::cli
