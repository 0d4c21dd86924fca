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
  std::vector<pb::CheckpointFile> files;  // where it was written, with those of others that it uses
  std::vector<TableSpec> tables;
};

/// A server's answers to the coordinator: for each job, the newest view and what its shards have
/// answered to it. No I/O.
/// Thread    one at a time
class ServerJobs {
 public:
  explicit ServerJobs(std::size_t shards) : shards_(shards) {}

  /// A view that every shard must take over; nothing if it is not newer, or cannot work here.
  [[nodiscard]] std::shared_ptr<const JobView> take_job(const pb::ServerJob& job);
  /// A shard's answer to it.
  void take_report(std::size_t shard, ShardReport report);
  /// A shard's part of a checkpoint: captured too late, written, or not written.
  void take_part(std::size_t shard, JobId job, ShardPart part);
  /// The job cannot start here; the coordinator gets the reason.
  void fail(JobId job, const std::string& why);
  /// Forgets everything: the coordinator does not know this server any more, and may number its
  /// jobs again. Returns the message for every shard that they are over.
  [[nodiscard]] std::vector<std::shared_ptr<const JobView>> clear();

  /// The content of the next heartbeat, if it changed since the last call.
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
