#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "server/job_view.hpp"
#include "server/shard.hpp"

namespace taut::server {

/// The result of a shard's part of a checkpoint.
struct ShardPart {
  std::uint64_t number = 0;  // of the order
  bool missed = false;
  std::string error;
  std::vector<pb::CheckpointFile> files;  // those written or linked from earlier checkpoints
  std::vector<TableSpec> tables;
};

/// A server's answers to the coordinator: for each job, the newest view and its shards' reports on
/// it. No I/O.
/// Thread    one at a time
class ServerJobs {
 public:
  explicit ServerJobs(std::size_t shards) : shards_(shards) {}

  /// Returns the view that every shard must adopt; nullptr if it is not newer or cannot work here.
  [[nodiscard]] std::shared_ptr<const JobView> take_job(const pb::ServerJob& job);
  /// Takes a shard's report on a view.
  void take_report(std::size_t shard, ShardReport report);
  /// Takes a shard's part of a checkpoint: captured too late, written, or not written.
  void take_part(std::size_t shard, JobId job, ShardPart part);
  /// Records that the job cannot start here; the coordinator gets the reason.
  void fail(JobId job, const std::string& why);
  /// Forgets all jobs: the coordinator no longer knows this server, and may reuse their numbers.
  /// Returns, for every shard, views in which these jobs are over.
  [[nodiscard]] std::vector<std::shared_ptr<const JobView>> clear();

  /// The content of the next heartbeat; nullopt if it has not changed since the last call.
  [[nodiscard]] std::optional<pb::Heartbeat> take_news();

 private:
  struct Progress {
    std::uint64_t revision = 0;
    bool finished = false;
    std::map<std::size_t, ShardReport> reports;  // by shard
    std::string error;
    std::string failure;                     // of the job, independent of its revisions
    std::map<std::size_t, ShardPart> parts;  // of the newest order that any shard answered
  };
  void fill_part(const Progress& progress, pb::CheckpointPart& part) const;
  void fill(std::uint64_t job, const Progress& progress, pb::ServerJobReply& reply) const;

  const std::size_t shards_;
  std::map<std::uint64_t, Progress> jobs_;
  bool changed_ = false;
};

}  // namespace taut::server
