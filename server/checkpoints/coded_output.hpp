#pragma once

#include <string>

#include "server/checkpoints/checkpoint_file.hpp"
#include "server/checkpoints/resume_images.hpp"
#include "server/parts/part_client.hpp"
#include "server/parts/part_store.hpp"

namespace taut::server {

/// The disks of a job's servers, as one of them accesses them.
struct PartDisks {
  std::string server;  // its own name
  PartStore* own = nullptr;
  PartClient* others = nullptr;
};

/// Makes files in parts on the disks of the order's holders. Part i of a host's files goes to
/// holder (host + i) modulo the number of holders.
/// REQUIRES: the order is of a coded checkpoint.
[[nodiscard]] MakeOutput coded_files(const CaptureOrder& order, ShardId host,
                                     const PartDisks& disks);

/// Opens the checkpoint that a job resumes: a coded one from the parts that the job's servers have,
/// each compared with its SHA-256 by the server that has it.
[[nodiscard]] OpenSaved saved_on(const PartDisks& disks);

}  // namespace taut::server
