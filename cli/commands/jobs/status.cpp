#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/views/message_json.hpp"
#include "cli/views/status_view.hpp"
#include "cli/views/terminal.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

struct StatusOptions {
  std::uint64_t job = 0;
  bool watch = false;
  bool json = false;
  CoordinatorOption coordinator;
};

std::vector<std::string> lines_of(const StatusOptions& options, const pb::StatusReply& status) {
  if (options.json) return {message_json(status)};
  return status_view(status, terminal_width());
}

Result<void> watch(const StatusOptions& options, ControlClient& client) {
  constexpr auto kBetween = std::chrono::milliseconds(200);
  watch_stop_signals();
  LiveBlock block;
  const bool redraw = on_terminal() && !options.json;
  while (stop_signal() == 0) {
    TAUT_TRY(const pb::StatusReply status, client.status(JobId(options.job)));
    if (redraw) {
      block.show(lines_of(options, status));
    } else {
      for (const std::string& line : lines_of(options, status)) fmt::print("{}\n", line);
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(redraw ? kBetween : 10 * kBetween);
  }
  return ok();
}

Result<void> run(const StatusOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  if (options.watch) return watch(options, client);
  TAUT_TRY(const pb::StatusReply status, client.status(JobId(options.job)));
  for (const std::string& line : lines_of(options, status)) fmt::print("{}\n", line);
  return ok();
}

}  // namespace

void add_status(Command& command, int& status) {
  auto options = std::make_shared<StatusOptions>();
  command.whole_number("JOB", options->job, "Number of one job (default: all)", 1);
  command.flag("--watch", options->watch, "Shows it again and again, until Ctrl-C");
  command.flag("--json", options->json, "Prints one JSON object on a line");
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    const Result<void> done = run(*options);
    if (!done) status = fail("status", done.error().message);
  });
}

}  // namespace taut::cli
