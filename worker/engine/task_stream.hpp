#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "worker/engine/stream.hpp"

namespace taut {

/// The progress of a stream on the host. Thread: any.
class StreamProgress {
 public:
  void pass(std::uint64_t mark);
  [[nodiscard]] bool has_passed(std::uint64_t mark);
  void await(std::uint64_t mark);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t passed_ = 0;
};

/// Runs posted tasks in order on a dedicated thread, in parallel with the compute: the CPU's copies
/// between its device memory and the host's.
class TaskStream final : public Stream {
 public:
  TaskStream();
  /// Runs the pending tasks first.
  ~TaskStream() override;

  void post(std::function<void()> task);
  void finish() override;

  [[nodiscard]] const std::shared_ptr<StreamProgress>& progress() const { return progress_; }
  /// The tasks posted so far, as a mark of the progress.
  [[nodiscard]] std::uint64_t posted();

 private:
  void run();

  const std::shared_ptr<StreamProgress> progress_ = std::make_shared<StreamProgress>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t posted_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

/// A point in the work of a stream on the host. A stream that is not a TaskStream runs inline: its
/// marks have always been passed, and it waits on the calling thread.
class HostEvent final : public Event {
 public:
  void record(Stream& stream) override;
  void wait(Stream& stream) override;
  bool query() override;
  void finish() override;

 private:
  std::shared_ptr<StreamProgress> of_;  // nullptr: has passed
  std::uint64_t mark_ = 0;
};

}  // namespace taut
