#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/control_client.hpp"
#include "cli/key_input.hpp"
#include "cli/terminal.hpp"
#include "cli/top_view.hpp"
#include "common/stop_signal.hpp"
#include "common/time.hpp"

namespace taut::cli {
namespace {

constexpr Duration kAnswerWithin{1'000'000};

struct TopOptions {
  double interval_s = 0.5;
  int frames = 0;
  CoordinatorOption coordinator;
};

/// Waits until the next look is due. False: the user wants to end.
bool wait_for_next(KeyInput& keys, double interval_s) {
  const TimePoint until = steady_now() + std::chrono::duration_cast<Duration>(
                                             std::chrono::duration<double>(interval_s));
  while (stop_signal() == 0 && steady_now() < until) {
    const auto key = keys.next(until - steady_now());
    if (key == 'q' || key == 'Q') return false;
  }
  return stop_signal() == 0;
}

/// What is shown while the coordinator does not answer: it may be restarting, and what one wants is
/// to see it come back.
std::vector<std::string> waiting_lines(const Error& error) {
  return {error.message, "waiting for it; q or Ctrl-C ends"};
}

void show(LiveBlock& block, const std::vector<std::string>& lines) {
  if (on_terminal()) return block.show(lines);
  for (const std::string& line : lines) fmt::print("{}\n", line);
  std::fflush(stdout);
}

Result<void> run(const TopOptions& options) {
  TAUT_TRY(const std::string address, options.coordinator.resolve());
  TAUT_TRY(auto client, connect_control(address, options.coordinator.wait_s));
  // A key is looked for between two questions.
  client.set_deadline(kAnswerWithin);
  watch_stop_signals();
  KeyInput keys;
  LiveBlock block;
  TopView view;
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

void add_top(CLI::App& app, int& status) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command =
      app.add_subcommand("top", "Shows a running cluster live: clocks, waiting, shards, log");
  command->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--frames", options->frames, "End after so many (default: at q or Ctrl-C)")
      ->check(CLI::PositiveNumber);
  options->coordinator.add_to(*command);
  command->footer("Example: tautline top --coordinator 127.0.0.1:7600");
  command->callback([options, &status] {
    const Result<void> done = run(*options);
    if (!done) status = fail("top", done.error().message);
  });
}

}  // namespace taut::cli
