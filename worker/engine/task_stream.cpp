#include "worker/engine/task_stream.hpp"

#include <utility>

#include "common/system/affinity.hpp"

namespace taut {

void StreamProgress::pass(std::uint64_t mark) {
  std::scoped_lock lock(mutex_);
  passed_ = mark;
  changed_.notify_all();
}

bool StreamProgress::has_passed(std::uint64_t mark) {
  std::scoped_lock lock(mutex_);
  return passed_ >= mark;
}

void StreamProgress::await(std::uint64_t mark) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return passed_ >= mark; });
}

TaskStream::TaskStream() : thread_([this] { run(); }) {}

TaskStream::~TaskStream() {
  {
    std::scoped_lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void TaskStream::post(std::function<void()> task) {
  std::scoped_lock lock(mutex_);
  tasks_.push_back(std::move(task));
  ++posted_;
  changed_.notify_all();
}

std::uint64_t TaskStream::posted() {
  std::scoped_lock lock(mutex_);
  return posted_;
}

void TaskStream::finish() {
  progress_->await(posted());
}

void TaskStream::run() {
  follow_main_thread();
  std::uint64_t done = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    progress_->pass(++done);
    lock.lock();
  }
}

void HostEvent::record(Stream& stream) {
  auto* const tasks = dynamic_cast<TaskStream*>(&stream);
  of_ = tasks == nullptr ? nullptr : tasks->progress();
  mark_ = tasks == nullptr ? 0 : tasks->posted();
}

void HostEvent::wait(Stream& stream) {
  if (query()) return;
  auto* const tasks = dynamic_cast<TaskStream*>(&stream);
  if (tasks == nullptr) {
    finish();
    return;
  }
  tasks->post([of = of_, mark = mark_] { of->await(mark); });
}

bool HostEvent::query() {
  return of_ == nullptr || of_->has_passed(mark_);
}

void HostEvent::finish() {
  if (of_ != nullptr) of_->await(mark_);
}

}  // namespace taut
