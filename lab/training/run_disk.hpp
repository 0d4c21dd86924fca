#pragma once

#include <filesystem>
#include <string>

#include "common/time.hpp"
#include "server/coordinator/checkpoints/checkpoint_keeper.hpp"
#include "server/replication/slice_image.hpp"
#include "server/server_jobs.hpp"

namespace taut::lab {

/// The disk that all processes of a training share: a folder of this machine, to which the paths in
/// their messages are relative. So messages have the same length wherever the folder is. Writing
/// takes no virtual time.
class RunDisk {
 public:
  /// The folder on it for checkpoints.
  static constexpr const char* kCheckpoints = "checkpoints";

  explicit RunDisk(const std::filesystem::path& root);

  /// The place of one of its paths on this machine.
  [[nodiscard]] std::string place_of(const std::string& path) const;

  /// Writes a shard's part of a checkpoint, as the server's writing thread does.
  [[nodiscard]] server::ShardPart write(server::ShardCapture capture) const;

  /// Carries out the coordinator's task for a checkpoint.
  /// now  becomes the checkpoint's time
  [[nodiscard]] DoneCheckpointTask carry_out(CheckpointTask task, TimePoint now) const;

 private:
  [[nodiscard]] std::string path_of(const std::string& place) const;

  const std::filesystem::path root_;
};

}  // namespace taut::lab
