#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/views/key_input.hpp"
#include "cli/views/terminal.hpp"
#include "cli/views/top_view.hpp"
#include "cli/views/worker_marks.hpp"
#include "common/system/stop_signal.hpp"
#include "common/time.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

constexpr Duration kAnswerWithin{1'000'000};

struct TopOptions {
  double interval_s = 0.5;
  int frames = 0;
  std::uint64_t job = 0;
  CoordinatorOption coordinator;
};

/// Waits until the next frame is due. False: the user ends the command.
bool wait_for_next(KeyInput& keys, double interval_s) {
  const TimePoint until = steady_now() + std::chrono::duration_cast<Duration>(
                                             std::chrono::duration<double>(interval_s));
  while (stop_signal() == 0 && steady_now() < until) {
    const auto key = keys.next(until - steady_now());
    if (key == 'q' || key == 'Q') return false;
  }
  return stop_signal() == 0;
}

/// The screen while the coordinator does not answer: it may be restarting.
std::vector<std::string> waiting_lines(const Error& error) {
  return {error.message, "waiting for it; q or Ctrl-C ends"};
}

void show(LiveBlock& block, const std::vector<std::string>& lines) {
  if (on_terminal()) return block.show(lines);
  for (const std::string& line : lines) fmt::print("{}\n", line);
  std::fflush(stdout);
}

Result<void> run(const TopOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  // Keys are checked between two requests.
  client.set_deadline(kAnswerWithin);
  watch_stop_signals();
  KeyInput keys;
  LiveBlock block;
  TopView view(shows_colours(), JobId(options.job));
  for (int frame = 1;; ++frame) {
    const auto status = client.status();
    if (!status && frame == 1) return status.error();
    show(block, status
                    ? view.draw(status.value(), steady_now(), terminal_width(), terminal_height())
                    : waiting_lines(status.error()));
    if (frame == options.frames || !wait_for_next(keys, options.interval_s)) return ok();
  }
}

}  // namespace

void add_top(Command& command, int& status) {
  auto options = std::make_shared<TopOptions>();
  command.whole_number("JOB", options->job,
                       "Number of the job to show (default: the first running one)", 1);
  command
      .number("--interval", options->interval_s, "Time between two looks", "SECONDS",
              {.min = 0.1, .max = 3600})
      .by_default(fmt::format("{:g}", options->interval_s));
  command.whole_number("--frames", options->frames,
                       "Ends after this many refreshes (default: at q or Ctrl-C)", 1);
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    const Result<void> done = run(*options);
    if (!done) status = fail("top", done.error().message);
  });
}

}  // namespace taut::cli
