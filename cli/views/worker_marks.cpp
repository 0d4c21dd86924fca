#include "cli/views/worker_marks.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "cli/views/terminal.hpp"

namespace taut::cli {
namespace {

double wait_share(const pb::WorkerStatus& worker) {
  const pb::Progress& own = worker.progress();
  const double spent = own.compute_s() + own.wait_s();
  return spent > 0 ? own.wait_s() / spent : 0;
}

/// The others wait for it: it hardly waits, and they do, on the mean.
bool is_straggler(const pb::JobStatus& job, const pb::WorkerStatus& worker) {
  constexpr double kHardly = 0.1;
  constexpr double kMuch = 0.25;
  double waited = 0;
  int others = 0;
  for (const pb::WorkerStatus& other : job.workers()) {
    if (other.name() == worker.name() || other.state() != pb::PROCESS_RUNNING) continue;
    waited += wait_share(other);
    ++others;
  }
  return others > 0 && wait_share(worker) < kHardly && waited / others > kMuch;
}

struct Look {
  const char* colour;
  std::string words;
};

Look look_of(WorkerMark mark, const pb::WorkerStatus& worker) {
  switch (mark) {
    case WorkerMark::kLost:
      return {"\x1b[31m", "! lost"};
    case WorkerMark::kStalled:
      return {"\x1b[33m", fmt::format("? silent for {:.0f} s", worker.silent_s())};
    case WorkerMark::kStraggler:
      return {"\x1b[35m", "< straggler"};
    case WorkerMark::kNone:
      break;
  }
  return {"", ""};
}

}  // namespace

WorkerMark mark_of(const pb::JobStatus& job, const pb::WorkerStatus& worker) {
  constexpr double kLongSilence_s = 3;
  if (worker.state() == pb::PROCESS_LOST) return WorkerMark::kLost;
  if (worker.state() != pb::PROCESS_RUNNING) return WorkerMark::kNone;
  if (worker.silent_s() > kLongSilence_s) return WorkerMark::kStalled;
  return is_straggler(job, worker) ? WorkerMark::kStraggler : WorkerMark::kNone;
}

void mark_workers(const pb::JobStatus& job, bool colours, std::vector<std::string>& lines) {
  constexpr const char* kPlain = "\x1b[0m";
  for (const pb::WorkerStatus& worker : job.workers()) {
    const WorkerMark mark = mark_of(job, worker);
    if (mark == WorkerMark::kNone) continue;
    const Look look = look_of(mark, worker);
    for (std::string& line : lines) {
      if (!line.starts_with(worker.name() + " ")) continue;
      line += "  " + look.words;
      if (colours) line = look.colour + line + kPlain;
      break;
    }
  }
}

bool shows_colours() {
  const char* const none = std::getenv("NO_COLOR");
  return on_terminal() && (none == nullptr || *none == '\0');
}

}  // namespace taut::cli
