#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "lab/contract/contract.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut::sim {

/// What a run knows about its processes, whatever they have reported.
struct Survivors {
  /// This process of the server runs, and nothing has kept the coordinator from hearing it for
  /// longer than a process may be silent.
  std::function<bool(const pb::StoredServer&)> is_here;
  /// As is_here(), and it serves the shard from this host.
  std::function<bool(const pb::StoredServer&, std::uint32_t host, std::uint32_t shard)> serves;
  /// As is_here(), and it has an image of each of the shard's slices, as a backup by this choice.
  std::function<bool(const pb::StoredServer&, std::uint32_t host, std::uint32_t shard,
                     std::uint64_t choice)>
      has_images;
  /// Some worker runs, and nothing has kept the coordinator from hearing it for that long.
  std::function<bool()> is_any_worker_here;
};

/// Why a job that the coordinator has just given up could have continued; nullopt if it could not.
[[nodiscard]] std::optional<Broken> check_early_end(const pb::StoredJob& job,
                                                    const Survivors& survivors);

/// Whether each shard is served and has `backups` complete backups, as the run knows it: that many
/// servers may be lost now.
[[nodiscard]] bool has_backups(const pb::StoredJob& job, const Survivors& survivors,
                               std::uint32_t backups);

}  // namespace taut::sim
