#include "common/system/stop_signal.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace taut {
namespace {

std::atomic<int> first_signal = 0;
std::atomic<int> times = 0;
std::atomic<std::int64_t> first_ms = 0;
std::atomic<bool> is_urgent = false;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler takes no lock");
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a signal handler takes no lock");

std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // async-signal-safe
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

void on_signal(int signal) {
  constexpr std::int64_t kRepetition_ms = 500;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    first_ms = now_ms();
  } else if (now_ms() - first_ms >= kRepetition_ms) {
    is_urgent = true;
  }
  // A terminal and a parent may both forward one Ctrl-C, so only a third signal exits at once.
  if (times.fetch_add(1) >= 2) _exit(128 + signal);
}

}  // namespace

void watch_stop_signals(std::initializer_list<int> more) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  for (const int signal : more) sigaction(signal, &action, nullptr);
  struct sigaction inherited {};
  sigaction(SIGTERM, nullptr, &inherited);
  if (inherited.sa_handler != SIG_IGN) sigaction(SIGTERM, &action, nullptr);
}

int stop_signal() {
  return first_signal;
}

bool stop_is_urgent() {
  return is_urgent;
}

void settle_process_signals(bool with_parent) {
  std::signal(SIGPIPE, SIG_IGN);
  if (with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
}

}  // namespace taut
