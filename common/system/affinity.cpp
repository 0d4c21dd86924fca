#include "common/system/affinity.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <string_view>
#include <system_error>

namespace taut {
namespace {

/// Takes a number from the front of `text`. False if there is none, or it is out of range.
bool take_number(std::string_view& text, int& out) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc() || out < 0 || out >= CPU_SETSIZE) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool parse(std::string_view text, cpu_set_t& set) {
  CPU_ZERO(&set);
  while (true) {
    int first = 0;
    if (!take_number(text, first)) return false;
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_number(text, last) || last < first) return false;
    }
    for (int cpu = first; cpu <= last; ++cpu) CPU_SET(static_cast<std::size_t>(cpu), &set);
    if (text.empty()) return true;
    if (!text.starts_with(',')) return false;
    text.remove_prefix(1);
  }
}

}  // namespace

Result<void> pin_this_thread(const std::string& processors) {
  cpu_set_t set;
  if (!parse(processors, set)) {
    return invalid(fmt::format("pin \"{}\" is not a list of processors such as \"0\" or \"0,2-3\"",
                               processors));
  }
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    return invalid(fmt::format("pin \"{}\" names a processor that does not exist", processors));
  }
  return ok();
}

void follow_main_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // The main thread's id is its process's id.
  if (sched_getaffinity(getpid(), sizeof set, &set) == 0) sched_setaffinity(0, sizeof set, &set);
}

}  // namespace taut
