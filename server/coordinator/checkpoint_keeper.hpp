#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/bounded_queue.hpp"
#include "common/result.hpp"
#include "server/coordinator/checkpoint_orders.hpp"

namespace taut {

/// Makes a checkpoint whole whose parts lie in `aside`: checks that they are there, writes the
/// manifest to them, flushes and renames the folder, then removes the older ones that the task names.
/// A folder that stood there before is replaced. Done again, it changes nothing.
/// notes     what else is worth telling
/// Errors    not_found: a part is not there, as where servers do not share the folder; io
[[nodiscard]] Result<void> finish_checkpoint(const CheckpointTask& task,
                                             std::vector<std::string>& notes);

/// Removes the files of a checkpoint, whole or not, and its folder; nothing else that lies there.
/// Errors    io
[[nodiscard]] Result<void> remove_checkpoint(const std::string& folder);

/// Carries checkpoint tasks out on a thread of its own: the coordinator waits for no disk.
/// Thread    put() and take_done(): one
class CheckpointKeeper {
 public:
  struct Done {
    CheckpointTask task;
    std::string error;  // empty: it went well
    std::vector<std::string> notes;
  };

  /// on_done  called on the keeper's thread after each task
  explicit CheckpointKeeper(std::function<void()> on_done);
  /// Ends once the task at hand is through.
  ~CheckpointKeeper();
  CheckpointKeeper(const CheckpointKeeper&) = delete;
  CheckpointKeeper& operator=(const CheckpointKeeper&) = delete;

  void put(CheckpointTask task);
  [[nodiscard]] std::vector<Done> take_done();

 private:
  void run();
  void give(Done done);

  const std::function<void()> on_done_;
  BoundedQueue<CheckpointTask> tasks_{256};
  std::mutex mutex_;
  std::vector<Done> done_;
  std::thread thread_;
};

}  // namespace taut
