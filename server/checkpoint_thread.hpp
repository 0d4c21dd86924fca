#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>

#include "common/bounded_queue.hpp"
#include "common/result.hpp"
#include "server/server_jobs.hpp"
#include "server/slice_image.hpp"
#include "server/spare_memory.hpp"

namespace taut::server {

/// The files of checkpoints, on a thread of their own: shards and the line to the coordinator never
/// wait for a disk.
/// Thread    any, for everything public; what is called back is called on this one's
class CheckpointThread {
 public:
  using OnPart = std::function<void(std::size_t shard, JobId job, ShardPart part)>;
  using OnLoaded = std::function<void(const pb::ServerJob& job, Result<std::vector<ShardImages>>)>;

  CheckpointThread(std::size_t shards, OnPart on_part, OnLoaded on_loaded);
  /// Ends soon: what is being written is dropped.
  ~CheckpointThread();
  CheckpointThread(const CheckpointThread&) = delete;
  CheckpointThread& operator=(const CheckpointThread&) = delete;

  /// Writes what a shard has captured. Where too much waits already, its part counts as failed.
  void write(std::size_t shard, ShardCapture capture);
  /// Makes memory ready that the next checkpoint will want; where that fails or too much waits, it
  /// goes without.
  void stock(SpareStock stock);
  /// Gives memory back to the system; where too much waits already, on the caller's thread.
  void free(SpareExcess excess);
  /// Reads what a resumed job's slices begin with.
  void load(const pb::ServerJob& job);

 private:
  using Task = std::function<void()>;
  void run();
  void write_now(std::size_t shard, ShardCapture capture);

  const std::size_t shards_;
  const OnPart on_part_;
  const OnLoaded on_loaded_;
  BoundedQueue<Task> tasks_{1024};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace taut::server
