#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/command.hpp"
#include "cli/control_client.hpp"
#include "cli/draw.hpp"
#include "cli/job_view.hpp"
#include "cli/terminal.hpp"
#include "cli/top_view.hpp"
#include "common/stop_signal.hpp"
#include "common/time.hpp"

namespace taut::cli {
namespace {

struct TopOptions {
  double interval_s = 0.5;
  int frames = 0;
  CoordinatorOption coordinator;
};

Result<void> run(const TopOptions& options) {
  TAUT_TRY(const std::string address, options.coordinator.resolve());
  TAUT_TRY(auto client, connect_control(address, options.coordinator.wait_s));
  watch_stop_signals();
  LiveBlock block;
  TopView view;
  const bool redraw = on_terminal();
  for (int frame = 0; stop_signal() == 0 && (options.frames == 0 || frame < options.frames);
       ++frame) {
    const auto status = client.status();
    std::vector<std::string> lines;
    if (status) {
      lines = view.draw(status.value(), steady_now(), terminal_width(), terminal_height());
    } else if (frame > 0) {
      // It may be restarting: what one wants is to see it come back.
      lines = {status.error().message, "waiting for it; Ctrl-C ends"};
    } else {
      return status.error();
    }
    if (redraw) {
      block.show(lines);
    } else {
      for (const std::string& line : lines) fmt::print("{}\n", line);
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  }
  return ok();
}

}  // namespace

void add_top(CLI::App& app, int& status) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command =
      app.add_subcommand("top", "Shows a running cluster live: clocks, waiting, shards, log");
  command->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--frames", options->frames, "End after so many (default: at Ctrl-C)")
      ->check(CLI::PositiveNumber);
  options->coordinator.add_to(*command);
  command->footer("Example: tautline top --coordinator 127.0.0.1:7600");
  command->callback([options, &status] {
    const Result<void> done = run(*options);
    if (!done) status = fail("top", done.error().message);
  });
}

}  // namespace taut::cli
