#include "tests/twin/runtime/memory_faults.hpp"

#include <fmt/format.h>
#include <ucontext.h>

#include <csignal>
#include <string>

#include "tests/twin/kernels/block.hpp"
#include "tests/twin/runtime/device_memory.hpp"
#include "tests/twin/runtime/scheduler.hpp"

namespace taut::twin {
namespace {

struct sigaction former {};

void hand_on(int number, siginfo_t* info, void* context) {
  if ((former.sa_flags & SA_SIGINFO) != 0 && former.sa_sigaction != nullptr) {
    former.sa_sigaction(number, info, context);
    return;
  }
  // As if the twin were not there: the access is made again, and ends the process.
  (void)std::signal(number, SIG_DFL);
}

/// A fault is met by the thread that runs work, which has the lock, or by one that may not touch
/// the memory at all.
void on_fault(int number, siginfo_t* info, void* context) {
  const auto* const state = static_cast<const ucontext_t*>(context);
  const bool is_write = (state->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  if (open_touched(info->si_addr, is_write)) return;
  const std::string place = place_of(info->si_addr);
  if (place.empty()) return hand_on(number, info, context);
  const char* const verb = is_write ? "writes" : "reads";
  const Operation* const operation = running();
  if (!is_running_here()) {
    report_violation("memory.host", fmt::format("the host {} {}", verb, place));
  }
  const std::string thread = operation->task.is_kernel() ? running_thread() : operation->task.what;
  report_violation("memory.bounds", fmt::format("{} {} {}, which it may not", thread, verb, place));
}

}  // namespace

void watch_faults() {
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_sigaction == on_fault) return;
  former = now;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  (void)sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace taut::twin
