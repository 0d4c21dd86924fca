#include "common/stop_signal.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace taut {
namespace {

std::atomic<int> asked = 0;
std::atomic<int> times = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler takes no lock");

void on_signal(int signal) {
  int none = 0;
  asked.compare_exchange_strong(none, signal);
  // A terminal and a parent may both forward one Ctrl-C, so only a third signal is a repetition.
  if (times.fetch_add(1) >= 2) _exit(128 + signal);
}

}  // namespace

void watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

int stop_signal() {
  return asked;
}

void settle_process_signals(bool with_parent) {
  std::signal(SIGPIPE, SIG_IGN);
  if (with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
}

}  // namespace taut
