#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/bounded_queue.hpp"
#include "common/result.hpp"
#include "server/coordinator/checkpoints/checkpoint_task.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/parts/part_client.hpp"

namespace taut {

/// Completes a checkpoint whose parts are in `aside`: checks that they exist, adds the
/// manifest, flushes and renames the folder, then removes the remains of earlier unfinished orders.
/// If another checkpoint has the name, here or on a server's disk, -2, -3, ... is appended to it.
/// Repeating a finished task changes nothing.
/// For a coded checkpoint, the servers first move their parts and get a copy of the manifest,
/// before it is written here.
/// notes     further lines for the log
/// parts     reaches the task's holders; nullptr if it has none
/// tried     is set to the final path as soon as it is chosen: after a failure servers may have
///           moved parts there
/// Returns   the folder that now has the checkpoint
/// Errors    not_found: a part is missing, for instance if servers do not share the folder; io
[[nodiscard]] Result<std::string> finish_checkpoint(const CheckpointTask& task, Notes& notes,
                                                    server::PartClient* parts = nullptr,
                                                    std::string* tried = nullptr);

/// Removes the files of a checkpoint, complete or not, and its folder; no other files in it.
/// Errors    io
[[nodiscard]] Result<void> remove_checkpoint(const std::string& folder);

/// A task and its result.
struct DoneCheckpointTask {
  CheckpointTask task;
  std::string error;  // empty on success
  Notes notes;        // further lines for the log
};

/// Executes a task, which may take a while.
/// parts     as finish_checkpoint()
[[nodiscard]] DoneCheckpointTask carry_out(CheckpointTask task,
                                           server::PartClient* parts = nullptr);

/// Executes checkpoint tasks on a dedicated thread: the coordinator never waits for a disk.
/// Thread    put() and take_done(): one
class CheckpointKeeper {
 public:
  using Done = DoneCheckpointTask;

  /// on_done  called on the keeper's thread after each task
  /// parts    for coded checkpoints; nullptr if there are none
  explicit CheckpointKeeper(std::function<void()> on_done,
                            std::unique_ptr<server::PartClient> parts = nullptr);
  /// Ends when the current task is finished.
  ~CheckpointKeeper();
  CheckpointKeeper(const CheckpointKeeper&) = delete;
  CheckpointKeeper& operator=(const CheckpointKeeper&) = delete;

  void put(CheckpointTask task);
  [[nodiscard]] std::vector<Done> take_done();

 private:
  void run();
  void give(Done done);

  const std::function<void()> on_done_;
  const std::unique_ptr<server::PartClient> parts_;
  BoundedQueue<CheckpointTask> tasks_{256};
  std::mutex mutex_;
  std::vector<Done> done_;
  std::thread thread_;
};

}  // namespace taut
