#include "tests/twin/kernels/block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/system/fiber.hpp"
#include "tests/twin/kernels/block_memory.hpp"
#include "tests/twin/kernels/device_code.hpp"
#include "tests/twin/kernels/random.hpp"
#include "tests/twin/kernels/warp.hpp"
#include "tests/twin/stream_queue.hpp"

uint3 threadIdx{};
uint3 blockIdx{};
dim3 blockDim{};
dim3 gridDim{};

namespace taut::twin {
namespace {

/// Runs the blocks of one kernel after the other. Threads share fibers: one that ends without
/// having waited leaves its fiber to the next, so that kernels without barriers cost no switches.
class Runner {
 public:
  void run(const char* kernel, dim3 grid, unsigned threads, std::uint64_t seed,
           const std::function<void()>& body);
  std::uint64_t call(const BlockCall& call);
  const char* where();

 private:
  struct Worker {
    std::unique_ptr<Fiber> fiber;
    unsigned thread = 0;
  };

  void run_block();
  void run_warp(unsigned warp);
  void resume(unsigned thread);
  void work(Worker& own);
  void show(unsigned thread);
  [[nodiscard]] unsigned next_fresh();
  [[nodiscard]] unsigned lanes_of(unsigned warp) const;
  [[nodiscard]] bool has_ready(unsigned warp) const;
  void end_barrier();
  [[noreturn]] void report_stuck();

  static constexpr unsigned kNone = ~0U;
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kStack = 256UL << 10U;
#else
  static constexpr std::size_t kStack = 64UL << 10U;
#endif

  const char* kernel_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  Random random_{0};
  unsigned threads_ = 0;
  unsigned warps_ = 0;
  unsigned exited_ = 0;
  unsigned current_ = 0;
  std::vector<Lane> lanes_;
  std::vector<Worker*> worker_of_;           // by thread; nullptr: not started, or exited
  std::vector<bool> started_;                // by thread
  std::deque<std::unique_ptr<Worker>> all_;  // never given back: they are used by the next kernel
  std::vector<Worker*> idle_;
  unsigned order_[kLanes] = {};  // of the running warp's lanes
  unsigned at_ = 0;              // place in it
  unsigned warp_ = 0;
  std::string where_;
};

void Runner::run(const char* kernel, dim3 grid, unsigned threads, std::uint64_t seed,
                 const std::function<void()>& body) {
  kernel_ = kernel;
  body_ = &body;
  random_ = Random(seed);
  threads_ = threads;
  warps_ = (threads + kLanes - 1) / kLanes;
  gridDim = grid;
  blockDim = dim3(threads);
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  // Every block once: a step that shares no factor with their number.
  std::uint64_t step = random_.below(blocks) | 1U;
  while (std::gcd(step, blocks) != 1) step = random_.below(blocks) + 1;
  std::uint64_t block = random_.below(blocks);
  for (std::uint64_t i = 0; i < blocks; ++i) {
    blockIdx.x = static_cast<unsigned>(block % grid.x);
    blockIdx.y = static_cast<unsigned>(block / grid.x % grid.y);
    blockIdx.z = static_cast<unsigned>(block / grid.x / grid.y);
    run_block();
    block = (block + step) % blocks;
  }
  kernel_ = nullptr;
}

void Runner::run_block() {
  begin_block_memory();
  lanes_.assign(threads_, Lane());
  worker_of_.assign(threads_, nullptr);
  started_.assign(threads_, false);
  exited_ = 0;
  std::vector<unsigned> ready;
  while (exited_ < threads_) {
    ready.clear();
    for (unsigned warp = 0; warp < warps_; ++warp) {
      if (has_ready(warp)) ready.push_back(warp);
    }
    if (ready.empty()) {
      end_barrier();
    } else {
      run_warp(ready[random_.below(ready.size())]);
    }
  }
  end_block_memory();
}

unsigned Runner::lanes_of(unsigned warp) const {
  return std::min(kLanes, threads_ - warp * kLanes);
}

bool Runner::has_ready(unsigned warp) const {
  for (unsigned lane = 0; lane < lanes_of(warp); ++lane) {
    if (lanes_[warp * kLanes + lane].state == Lane::kReady) return true;
  }
  return false;
}

void Runner::run_warp(unsigned warp) {
  const unsigned count = lanes_of(warp);
  warp_ = warp;
  const auto step = static_cast<unsigned>(random_.below(kLanes)) | 1U;
  const auto first = static_cast<unsigned>(random_.below(kLanes));
  for (unsigned i = 0; i < kLanes; ++i) order_[i] = (first + i * step) % kLanes;
  do {
    for (at_ = 0; at_ < kLanes; ++at_) {
      const unsigned thread = warp * kLanes + order_[at_];
      if (order_[at_] < count && lanes_[thread].state == Lane::kReady) resume(thread);
    }
    // Now and then another warp goes first.
  } while (end_warp_calls(&lanes_[warp * kLanes], count) && random_.below(8) != 0);
}

void Runner::show(unsigned thread) {
  current_ = thread;
  threadIdx = {thread, 0, 0};
}

void Runner::resume(unsigned thread) {
  if (!started_[thread]) {
    if (idle_.empty()) {
      all_.push_back(std::make_unique<Worker>());
      Worker* const fresh = all_.back().get();
      fresh->fiber = std::make_unique<Fiber>([this, fresh] { work(*fresh); }, kStack);
      idle_.push_back(fresh);
    }
    Worker* const worker = idle_.back();
    idle_.pop_back();
    worker->thread = thread;
    started_[thread] = true;
    worker_of_[thread] = worker;
  }
  show(thread);
  worker_of_[thread]->fiber->enter();
}

/// The next lane of the running warp's order, where it has not begun yet.
unsigned Runner::next_fresh() {
  if (at_ + 1 >= kLanes) return kNone;
  const unsigned lane = order_[at_ + 1];
  const unsigned thread = warp_ * kLanes + lane;
  if (lane >= lanes_of(warp_) || started_[thread]) return kNone;
  ++at_;
  return thread;
}

void Runner::work(Worker& own) {
  while (true) {
    (*body_)();
    lanes_[own.thread].state = Lane::kExited;
    worker_of_[own.thread] = nullptr;
    ++exited_;
    const unsigned next = next_fresh();
    if (next != kNone) {
      own.thread = next;
      started_[next] = true;
      worker_of_[next] = &own;
      show(next);
      continue;
    }
    idle_.push_back(&own);
    own.fiber->leave();
  }
}

std::uint64_t Runner::call(const BlockCall& call) {
  const unsigned thread = current_;
  const bool is_barrier = call.kind == BlockCall::kBarrier || call.kind == BlockCall::kBarrierOr;
  lanes_[thread].call = call;
  lanes_[thread].state = is_barrier ? Lane::kAtBarrier : Lane::kInWarpCall;
  worker_of_[thread]->fiber->leave();
  return lanes_[thread].result;
}

void Runner::end_barrier() {
  bool any = false;
  for (const Lane& lane : lanes_) {
    const bool is_here = lane.state == Lane::kAtBarrier && lane.call.kind == lanes_[0].call.kind &&
                         lane.call.place.line() == lanes_[0].call.place.line();
    if (!is_here) report_stuck();
    any = any || lane.call.bits != 0;
  }
  for (Lane& lane : lanes_) {
    lane.state = Lane::kReady;
    lane.result = any ? 1 : 0;
  }
  barrier_of_block_memory();
}

void Runner::report_stuck() {
  std::string waiting;
  std::string exited;
  for (unsigned thread = 0; thread < threads_; ++thread) {
    const Lane& lane = lanes_[thread];
    if (lane.state == Lane::kExited) {
      if (exited.empty()) exited = fmt::format("; thread {} and maybe others have exited", thread);
      continue;
    }
    const std::string place =
        fmt::format("{}:{}", lane.call.place.file_name(), lane.call.place.line());
    if (waiting.find(place) != std::string::npos) continue;
    waiting += fmt::format("{}thread {} waits at {}", waiting.empty() ? "" : ", ", thread, place);
  }
  report_violation(
      "block.barrier",
      fmt::format("kernel {}, block ({},{},{}): not all of {} threads come to one "
                  "barrier: {}{}",
                  kernel_, blockIdx.x, blockIdx.y, blockIdx.z, threads_, waiting, exited));
}

const char* Runner::where() {
  if (kernel_ == nullptr) return "";
  where_ = fmt::format("kernel {}, block ({},{},{}), thread {}", kernel_, blockIdx.x, blockIdx.y,
                       blockIdx.z, current_);
  return where_.c_str();
}

/// Never destroyed: its fibers wait forever.
Runner& runner() {
  static auto* const one = new Runner;
  return *one;
}

}  // namespace

std::uint64_t call_block(const BlockCall& call) {
  return runner().call(call);
}

void run_blocks(const char* kernel, dim3 grid, unsigned threads, std::uint64_t seed,
                const std::function<void()>& body) {
  runner().run(kernel, grid, threads, seed, body);
}

const char* running_thread() {
  return runner().where();
}

}  // namespace taut::twin
