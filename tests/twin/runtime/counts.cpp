#include "tests/twin/runtime/counts.hpp"

#include "tests/twin/runtime/lock.hpp"

namespace taut::twin {
namespace {

bool is_counting_only = false;
thread_local std::uint64_t own_waits = 0;

std::map<std::string, std::uint64_t>& names() {
  static auto* const all = new std::map<std::string, std::uint64_t>;
  return *all;
}

}  // namespace

WorkCounts& counted() {
  static auto* const one = new WorkCounts;
  return *one;
}

void count(const Task& task) {
  WorkCounts& counts = counted();
  switch (task.kind) {
    case TaskKind::kOther:
      break;
    case TaskKind::kKernel:
      ++counts.kernels;
      ++names()[task.what];
      counts.kernel_elements += task.amount;
      break;
    case TaskKind::kLibrary:
      ++counts.library_calls;
      break;
    case TaskKind::kToDevice:
      ++counts.copies_to_device;
      counts.bytes_to_device += task.amount;
      break;
    case TaskKind::kToHost:
      ++counts.copies_to_host;
      counts.bytes_to_host += task.amount;
      break;
    case TaskKind::kOnDevice:
      ++counts.copies_on_device;
      counts.bytes_on_device += task.amount;
      break;
  }
}

void count_wait() {
  ++counted().waits;
  ++own_waits;
}

std::uint64_t waits_of_this_thread() {
  return own_waits;
}

std::map<std::string, std::uint64_t> launches_by_name() {
  const Lock lock;
  return names();
}

bool counts_only() {
  return is_counting_only;
}

WorkCounts work_counts() {
  const Lock lock;
  return counted();
}

void count_only(bool on) {
  const Lock lock;
  is_counting_only = on;
}

}  // namespace taut::twin
