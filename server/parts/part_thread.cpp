#include "server/parts/part_thread.hpp"

#include <exception>

#include "common/log.hpp"

namespace taut::server {
namespace {

constexpr Duration kIdle{500'000};

DataPartReply working(std::uint64_t request) {
  DataPartReply reply;
  reply.head.set_request(request);
  reply.head.set_working(true);
  return reply;
}

}  // namespace

PartThread::PartThread(PartStore& store) : store_(store), thread_([this] { run(); }) {}

PartThread::~PartThread() {
  stop();
}

void PartThread::stop() {
  queue_.close();
  if (thread_.joinable()) thread_.join();
}

bool PartThread::admit(const Key& key) {
  const std::scoped_lock lock(mutex_);
  return keys_.insert(key).second;
}

void PartThread::forget(const Key& key) {
  const std::scoped_lock lock(mutex_);
  keys_.erase(key);
}

void PartThread::put(const Sender& from, DataPartRequest request, const Reply& reply) {
  const std::uint64_t number = request.head.request();
  const Key key{from, number};
  const std::uint64_t bytes = request.payload.size();
  if (!admit(key)) {
    reply(working(number));
    return;
  }
  const bool fits = waiting_bytes_ + bytes <= kMaxBytes;
  waiting_bytes_ += bytes;
  if (fits && queue_.push({key, std::move(request), reply}, Duration::zero())) return;
  waiting_bytes_ -= bytes;
  forget(key);
  if (!queue_.closed()) reply(working(number));
}

void PartThread::run() {
  while (!queue_.closed()) {
    auto waiting = queue_.pop(kIdle);
    if (!waiting) continue;
    waiting_bytes_ -= waiting->request.payload.size();
    try {
      waiting->reply(store_.answer(waiting->request));
    } catch (const std::exception& failure) {
      // For example, no memory to read into: the sender repeats the request, and eventually gives
      // up.
      log::warn("a request about a part of a checkpoint cannot be answered: {}", failure.what());
    }
    forget(waiting->key);
  }
}

}  // namespace taut::server
