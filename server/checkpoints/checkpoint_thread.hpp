#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

#include "common/bounded_queue.hpp"
#include "common/result.hpp"
#include "server/checkpoints/coded_output.hpp"
#include "server/checkpoints/spare_memory.hpp"
#include "server/replication/slice_image.hpp"
#include "server/server_jobs.hpp"

namespace taut::server {

/// Reads and writes checkpoint files on a dedicated thread: shards and the connection to the
/// coordinator never wait for a disk.
/// Thread    any, for everything public; callbacks run on the dedicated one
class CheckpointThread {
 public:
  using OnPart = std::function<void(std::size_t shard, JobId job, ShardPart part)>;
  using OnLoaded = std::function<void(const pb::ServerJob& job, Result<std::vector<ShardImages>>)>;

  /// disks  for coded checkpoints; what they point to outlives the thread
  CheckpointThread(std::size_t shards, OnPart on_part, OnLoaded on_loaded, PartDisks disks = {});
  /// Ends soon: drops a file that is being written, and reads no further slice of a checkpoint that
  /// is being resumed. Only the comparison of its files with their SHA-256, which comes first, is
  /// not interrupted.
  ~CheckpointThread();
  CheckpointThread(const CheckpointThread&) = delete;
  CheckpointThread& operator=(const CheckpointThread&) = delete;

  /// Writes what a shard has captured. If too much is pending already, its part counts as failed.
  /// A part that is withdrawn before it is written is not reported.
  void write(std::size_t shard, ShardCapture capture);
  /// Prepares memory for the next checkpoint; if that fails or too much is pending, there is none.
  void preallocate(SpareStock stock);
  /// Returns memory to the system; on the caller's thread if too much is pending already.
  void free(SpareExcess excess);
  /// Reads the initial state of a resumed job's slices.
  /// memory  the limit on tables; if they have no room, this fails at once; nullptr: no limit
  void load(const pb::ServerJob& job, std::shared_ptr<const TableMemory> memory = nullptr);

 private:
  using Task = std::function<void()>;
  void run();
  void write_now(std::size_t shard, ShardCapture capture);
  [[nodiscard]] Result<std::vector<pb::CheckpointFile>> write_files(ShardCapture capture);

  const std::size_t shards_;
  const OnPart on_part_;
  const OnLoaded on_loaded_;
  const PartDisks disks_;
  BoundedQueue<Task> tasks_{1024};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace taut::server
