#include "server/parts/part_thread.hpp"

#include <exception>

#include "common/log.hpp"

namespace taut::server {
namespace {

constexpr Duration kIdle{500'000};

}  // namespace

PartThread::PartThread(PartStore& store) : store_(store), thread_([this] { run(); }) {}

PartThread::~PartThread() {
  stop();
}

void PartThread::stop() {
  queue_.close();
  if (thread_.joinable()) thread_.join();
}

void PartThread::put(DataPartRequest request, Reply reply) {
  const std::uint64_t bytes = request.payload.size();
  if (waiting_bytes_ + bytes > kMaxBytes) return;
  waiting_bytes_ += bytes;
  if (!queue_.push({std::move(request), std::move(reply)}, Duration::zero())) {
    waiting_bytes_ -= bytes;
  }
}

void PartThread::run() {
  while (!queue_.closed()) {
    auto waiting = queue_.pop(kIdle);
    if (!waiting) continue;
    waiting_bytes_ -= waiting->first.payload.size();
    try {
      waiting->second(store_.answer(waiting->first));
    } catch (const std::exception& failure) {
      // No memory to read into, say: the sender repeats it, and gives up in time.
      log::warn("a request about a part of a checkpoint cannot be answered: {}", failure.what());
    }
  }
}

}  // namespace taut::server
