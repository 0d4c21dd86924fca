#pragma once

#include <cstdint>
#include <optional>

#include "proto/config/settle_averaging.hpp"
#include "proto/job.pb.h"

namespace taut {

/// The first field of a job's `exchange` that is out of its range or cannot be combined with the
/// rest of it.
[[nodiscard]] std::optional<FieldMisfit> misfit_of_exchange(const pb::Job& job);

/// Whether workers sum their gradients, or average their parameters, among themselves.
[[nodiscard]] bool exchanges_at_workers(const pb::Job& job);

/// Whether each worker has its own parameters, which it averages with its neighbours'.
[[nodiscard]] bool gossips(const pb::Job& job);

/// Sets the job's `consistency` for workers that exchange among themselves. To the servers and for
/// checkpoints, they train on their own and meet at intervals; if they sum, with values that are
/// already equal.
void settle_exchange(pb::Job& job);

}  // namespace taut
