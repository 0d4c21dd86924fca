#include "cli/views/progress_display.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "cli/views/job_text.hpp"

namespace taut::cli {
namespace {

constexpr Duration kBetweenLines = std::chrono::seconds(3);

}  // namespace

void ProgressDisplay::print(const std::vector<std::string>& lines) {
  if (live_) return block_.print_above(lines);
  for (const std::string& line : lines) fmt::print("{}\n", line);
  std::fflush(stdout);
}

void ProgressDisplay::show(const pb::JobStatus& job) {
  for (; tests_shown_ < job.evaluations_size(); ++tests_shown_) {
    print({evaluation_line(job.evaluations(tests_shown_), words_)});
  }
  if (live_) {
    waits_.take(job, steady_now());
    const WaitShares recent = waits_.shares();
    block_.show(progress_block(job, terminal_width(), words_, false, &recent));
  } else if (steady_now() >= next_line_ && job.state() == pb::RUNNING) {
    next_line_ = steady_now() + kBetweenLines;
    print({progress_line(job)});
  }
}

}  // namespace taut::cli
