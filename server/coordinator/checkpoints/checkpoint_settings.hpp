#pragma once

#include <cstdint>
#include <filesystem>

#include "proto/job.pb.h"

/// A job's checkpoint settings.
namespace taut {

/// The folder for a job's checkpoints; a relative one starts at the coordinator's working folder.
[[nodiscard]] std::filesystem::path checkpoint_folder(const pb::Job& definition);

/// How many lost servers a coded checkpoint survives, if its parts are spread over `servers`.
[[nodiscard]] std::uint32_t losses_survived(const pb::CodedCheckpoints& coded,
                                            std::uint32_t servers);

}  // namespace taut
