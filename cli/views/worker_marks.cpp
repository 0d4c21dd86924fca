#include "cli/views/worker_marks.hpp"

#include <algorithm>
#include <cstdlib>

#include "cli/views/terminal.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

/// The others wait for it: it hardly waits, and on average they do.
bool is_straggler(const pb::JobStatus& job, const pb::WorkerStatus& worker,
                  const WaitShares& waits) {
  constexpr double kHardly = 0.1;
  constexpr double kMuch = 0.25;
  const auto own = waits.find(worker.name());
  if (own == waits.end()) return false;
  double waited = 0;
  int others = 0;
  for (const pb::WorkerStatus& other : job.workers()) {
    const auto share = waits.find(other.name());
    if (other.name() == worker.name() || other.state() != pb::PROCESS_RUNNING) continue;
    if (share == waits.end()) continue;
    waited += share->second;
    ++others;
  }
  return others > 0 && own->second < kHardly && waited / others > kMuch;
}

}  // namespace

WaitShares waits_since_start(const pb::JobStatus& job) {
  WaitShares shares;
  for (const pb::WorkerStatus& worker : job.workers()) {
    const pb::Progress& own = worker.progress();
    const double spent = own.compute_s() + own.wait_s();
    if (spent > 0) shares[worker.name()] = own.wait_s() / spent;
  }
  return shares;
}

void RecentWaits::take(const pb::JobStatus& job, TimePoint now) {
  constexpr Duration kSpan{4'000'000};
  if (job.job() != job_) past_.clear();
  job_ = job.job();
  std::map<std::string, Heard> heard;
  for (const pb::WorkerStatus& worker : job.workers()) {
    if (worker.state() != pb::PROCESS_RUNNING) continue;
    heard[worker.name()] = {now + from_seconds(-worker.silent_s()), worker.progress().wait_s()};
  }
  past_.emplace_back(now, std::move(heard));
  while (past_.size() > 2 && now - past_[1].first >= kSpan) past_.pop_front();
}

WaitShares RecentWaits::shares() const {
  constexpr double kMinSpan_s = 1;
  WaitShares shares;
  if (past_.empty()) return shares;
  for (const auto& [name, newest] : past_.back().second) {
    const auto then = past_.front().second.find(name);
    if (then == past_.front().second.end()) continue;
    const double span_s = seconds(newest.at - then->second.at);
    const double wait_s = newest.wait_s - then->second.wait_s;
    // A worker that started again counts from 0.
    if (span_s >= kMinSpan_s && wait_s >= 0) shares[name] = std::min(1.0, wait_s / span_s);
  }
  return shares;
}

WorkerMark mark_of(const pb::JobStatus& job, const pb::WorkerStatus& worker,
                   const WaitShares& waits) {
  if (job.state() != pb::RUNNING) return WorkerMark::kNone;
  constexpr double kLongSilence_s = 3;
  if (worker.state() == pb::PROCESS_LOST) {
    return worker.progress().left() ? WorkerMark::kNone : WorkerMark::kLost;
  }
  if (worker.state() != pb::PROCESS_RUNNING) return WorkerMark::kNone;
  if (worker.silent_s() > kLongSilence_s) return WorkerMark::kStalled;
  return is_straggler(job, worker, waits) ? WorkerMark::kStraggler : WorkerMark::kNone;
}

std::string state_of(WorkerMark mark, const pb::WorkerStatus& worker) {
  switch (mark) {
    case WorkerMark::kLost:
      return "! lost";
    case WorkerMark::kStalled:
      return "? stalled";
    case WorkerMark::kStraggler:
      return "< straggler";
    case WorkerMark::kNone:
      break;
  }
  return state_word(worker);
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
