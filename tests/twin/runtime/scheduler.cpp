#include "tests/twin/runtime/scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <thread>
#include <unordered_set>
#include <utility>

#include "tests/twin/runtime/counts.hpp"
#include "tests/twin/runtime/device_memory.hpp"
#include "tests/twin/runtime/seed.hpp"

namespace taut::twin {
namespace {

// More than this many queued launches wait on a device too.
constexpr std::size_t kMaxPending = 4096;

struct Scheduler {
  std::vector<Work> pending;
  std::uint64_t numbers = 0;
  const Operation* running = nullptr;
  std::thread::id thread;  // that runs it
};
Scheduler& scheduler() {
  static auto* const one = new Scheduler;
  return *one;
}

bool is_ready(const Operation& operation) {
  const bool is_next = std::ranges::all_of(operation.after, &Operation::is_done);
  return is_next && (!operation.task.may_run || operation.task.may_run());
}

void run(const Work& work) {
  Scheduler& own = scheduler();
  Task& task = work->task;
  // What other devices wait for is never left out.
  const bool is_left_out =
      counts_only() && !task.may_run && (task.is_kernel() || task.kind == TaskKind::kLibrary);
  if (task.run && !is_left_out && device_status(task.device) == cudaSuccess) {
    own.running = work.get();
    own.thread = std::this_thread::get_id();
    open_memory(task);
    task.run();
    close_memory();
    own.running = nullptr;
  }
  work->is_done = true;
  std::erase(own.pending, work);
  work->task.run = nullptr;
  work->task.may_run = nullptr;
  work->after.clear();
  runtime_changed().notify_all();
}

/// Runs one that is ready, chosen by the seed; false if there is none.
bool run_any(const std::vector<Work>& among) {
  std::vector<Work> ready;
  std::ranges::copy_if(among, std::back_inserter(ready),
                       [](const Work& one) { return !one->is_done && is_ready(*one); });
  if (ready.empty()) return false;
  run(ready[random_number("which work runs", ready.size())]);
  return true;
}

/// The work and all that must run before it.
std::vector<Work> needed_for(const Work& work) {
  std::vector<Work> found;
  std::unordered_set<const Operation*> seen;
  std::vector<Work> open{work};
  while (!open.empty()) {
    const Work one = open.back();
    open.pop_back();
    if (one->is_done || !seen.insert(one.get()).second) continue;
    found.push_back(one);
    open.insert(open.end(), one->after.begin(), one->after.end());
  }
  return found;
}

/// Runs one of what the work needs. Where that waits for what other streams bring (an exchange
/// between devices), which continue by themselves: one of all that is queued. False: nothing may
/// run.
bool run_towards(const Work& work) {
  const std::vector<Work> needed = needed_for(work);
  if (run_any(needed)) return true;
  const bool waits_for_others = std::ranges::any_of(needed, [](const Work& one) {
    return one->task.may_run && std::ranges::all_of(one->after, &Operation::is_done);
  });
  return waits_for_others && run_any(scheduler().pending);
}

}  // namespace

std::recursive_mutex& runtime_mutex() {
  static auto* const one = new std::recursive_mutex;
  return *one;
}
std::condition_variable_any& runtime_changed() {
  static auto* const one = new std::condition_variable_any;
  return *one;
}

Work queue(Task task, std::vector<Work> after) {
  Scheduler& own = scheduler();
  count(task);
  auto work = std::make_shared<Operation>();
  work->task = std::move(task);
  work->number = ++own.numbers;
  std::erase_if(after, [](const Work& one) { return one == nullptr || one->is_done; });
  work->after = std::move(after);
  own.pending.push_back(work);
  runtime_changed().notify_all();
  switch (lateness()) {
    case Lateness::kLatest:
      break;
    case Lateness::kAnyTime:
      for (auto runs = random_number("how many run", 3); runs > 0; --runs) run_any(own.pending);
      break;
    case Lateness::kAtOnce:
      while (run_any(own.pending)) {
      }
      break;
  }
  while (own.pending.size() > kMaxPending && run_any(own.pending)) {
  }
  return work;
}

namespace {

void wait_until_done(Lock& lock, const Work& work) {
  if (work == nullptr) return;
  while (!work->is_done) {
    // Other threads may have queued or run something meanwhile.
    if (!run_towards(work)) lock.wait();
  }
}

}  // namespace

void wait_for(Lock& lock, const Work& work) {
  count_wait();
  wait_until_done(lock, work);
}

void wait_for_device(Lock& lock, int device) {
  count_wait();
  // What is queued by others meanwhile is not waited for.
  const std::vector<Work> now = scheduler().pending;
  for (const Work& work : now) {
    if (work->task.device == device) wait_until_done(lock, work);
  }
}

bool poll(const Work& work) {
  if (work == nullptr || work->is_done) return true;
  // A wait that asks before it blocks is counted as a wait, whatever is drawn.
  if (counts_only()) return false;
  if (random_number("whether a query helps", 2) == 0) (void)run_towards(work);
  return work->is_done;
}

const Operation* running() {
  return scheduler().running;
}

bool is_running_here() {
  return running() != nullptr && scheduler().thread == std::this_thread::get_id();
}

const Operation* pending_use(const void* begin, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(begin);
  for (const Work& work : scheduler().pending) {
    // A lost device runs nothing any more.
    if (device_status(work->task.device) != cudaSuccess) continue;
    for (const Access& access : work->task.accesses) {
      const auto* const at = static_cast<const std::byte*>(access.begin);
      if (at < first + bytes && first < at + access.bytes) return work.get();
    }
  }
  return nullptr;
}

}  // namespace taut::twin
