#include "cli/views/worker_marks.hpp"

#include <cstdlib>

#include "cli/views/terminal.hpp"
#include "proto/state_word.hpp"

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

}  // namespace

WorkerMark mark_of(const pb::JobStatus& job, const pb::WorkerStatus& worker) {
  if (job.state() != pb::RUNNING) return WorkerMark::kNone;
  constexpr double kLongSilence_s = 3;
  if (worker.state() == pb::PROCESS_LOST) return WorkerMark::kLost;
  if (worker.state() != pb::PROCESS_RUNNING) return WorkerMark::kNone;
  if (worker.silent_s() > kLongSilence_s) return WorkerMark::kStalled;
  return is_straggler(job, worker) ? WorkerMark::kStraggler : WorkerMark::kNone;
}

std::string state_of(const pb::JobStatus& job, const pb::WorkerStatus& worker) {
  switch (mark_of(job, worker)) {
    case WorkerMark::kLost:
      return "! lost";
    case WorkerMark::kStalled:
      return "? stalled";
    case WorkerMark::kStraggler:
      return "< straggler";
    case WorkerMark::kNone:
      break;
  }
  return state_word(worker.state());
}

std::string coloured(WorkerMark mark, const std::string& line) {
  constexpr const char* kPlain = "\x1b[0m";
  switch (mark) {
    case WorkerMark::kLost:
      return "\x1b[31m" + line + kPlain;
    case WorkerMark::kStalled:
      return "\x1b[33m" + line + kPlain;
    case WorkerMark::kStraggler:
      return "\x1b[35m" + line + kPlain;
    case WorkerMark::kNone:
      break;
  }
  return line;
}

bool shows_colours() {
  const char* const none = std::getenv("NO_COLOR");
  return on_terminal() && (none == nullptr || *none == '\0');
}

}  // namespace taut::cli
