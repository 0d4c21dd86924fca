#pragma once

#include <optional>

#include "proto/config/settle_averaging.hpp"
#include "proto/job.pb.h"

namespace taut {

/// The first field of a job whose training net keeps rows at the servers (an Embed layer's
/// by_rows), that cannot be combined with that; nullopt without such a layer. The first step to a
/// solver's field is "solver_param".
[[nodiscard]] std::optional<FieldMisfit> misfit_of_rows(const pb::Job& job);

}  // namespace taut
