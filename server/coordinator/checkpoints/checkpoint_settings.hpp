#pragma once

#include <cstdint>
#include <filesystem>

#include "proto/job.pb.h"

/// What a job says of its checkpoints.
namespace taut {

/// The folder that a job's checkpoints are made in; relative: to the coordinator's working folder.
[[nodiscard]] std::filesystem::path checkpoint_folder(const pb::Job& definition);

/// Of so many parts on so many servers, the most servers that may be lost; 0: none may be.
[[nodiscard]] std::uint32_t losses_survived(const pb::CodedCheckpoints& coded,
                                            std::uint32_t servers);

}  // namespace taut
