#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/types.hpp"
#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"

namespace taut {

/// Parts of a checkpoint that a server removes.
struct PartRemoval {
  std::string server;
  std::string address;  // of its first shard
  std::string folder;   // as the job names it
  std::uint64_t order = 0;
  bool failed = false;  // the server could not be asked, or did not answer
};

/// A complete checkpoint that is no longer kept.
struct UnkeptCheckpoint {
  std::string folder;
  std::uint64_t order = 0;  // its number; 0: unknown
};

/// Work on the file system for a job's checkpoint.
struct CheckpointTask {
  enum class Kind : std::uint8_t {
    kFinish,       // its parts are written: add the manifest and move the folder to its final path
    kDrop,         // it will not be completed: remove the coordinator's folder for it, and the
                   // remains of earlier ones
    kRemove,       // remove complete checkpoints that are no longer kept
    kRemoveParts,  // remove parts on the servers' disks, of dropped and of unkept ones
  };
  Kind kind = Kind::kFinish;
  JobId job;
  std::uint64_t number = 0;  // of the order
  std::string aside;         // the folder of the parts
  std::string folder;        // kFinish: the requested final path; once finished, the path used
  pb::CheckpointManifest manifest;
  std::vector<UnkeptCheckpoint> unkept;  // kRemove
  // kFinish of a coded checkpoint: the servers that may have parts. Others are whole files.
  std::vector<pb::PartHolder> holders;
  std::string tried;            // kFinish, once tried: the final path, even if it has failed
  std::string manifest_sha256;  // kFinish of a coded one, once finished: the manifest file's hash
  std::uint64_t token = 0;      // kDrop, kRemove, kRemoveParts: of the job's submission
  std::vector<PartRemoval> removals;  // kRemoveParts
};
using CheckpointTasks = std::vector<CheckpointTask>;

}  // namespace taut
