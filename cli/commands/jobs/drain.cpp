#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "cli/commands/shared_options.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

struct DrainOptions {
  std::string name;
  bool no_wait = false;
  CoordinatorOption coordinator;
};

/// Whether the process of this name no longer needs to be waited for: it is empty, or gone.
template <class Processes>
bool is_drained(const Processes& processes, const std::string& name) {
  return std::ranges::none_of(processes, [&](const auto& one) {
    return one.name() == name && one.state() != pb::PROCESS_LOST && !one.is_drained();
  });
}

Result<void> await_drained(ControlClient& client, const std::string& name) {
  watch_stop_signals();
  while (stop_signal() == 0) {
    TAUT_TRY(const pb::StatusReply status, client.status(JobId()));
    if (is_drained(status.servers(), name) && is_drained(status.workers(), name)) return ok();
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return make_error(ErrorCode::kClosed, "interrupted; it is still being drained");
}

Result<void> drain(const DrainOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  TAUT_TRY(const std::string message, client.drain(options.name));
  fmt::print("{}\n", message);
  std::fflush(stdout);
  if (options.no_wait) return ok();
  TAUT_TRY(await_drained(client, options.name));
  fmt::print("drained: no job needs \"{}\" any longer\n", options.name);
  return ok();
}

}  // namespace

void add_drain(Command& command, int& status) {
  auto options = std::make_shared<DrainOptions>();
  command.text("NAME", options->name, "Name of the server or worker, as status shows it")
      .required();
  command.flag("--no-wait", options->no_wait, "Returns once it is requested");
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    const Result<void> done = drain(*options);
    if (!done) status = fail("drain", done.error().message);
  });
}

}  // namespace taut::cli
