#pragma once

#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/ssp/compression.hpp"
#include "proto/job.pb.h"

namespace taut {

/// What is wrong with a field of a job's compression.
struct Misfit {
  const char* list = "";   // of the compression: "push" or "pull"
  int index = 0;           // the field is in so many's of that list, from 0
  const char* field = "";  // its name
  std::string what;        // with its path
};

/// The first of a job's compression that is out of its range, or that does not go with the rest of
/// the job; nothing: all of it fits.
[[nodiscard]] std::optional<Misfit> misfit_of_compression(const pb::Job& job);

/// Whether workers may keep a part of their updates for later ones.
[[nodiscard]] bool keeps_residuals(const pb::Job& job);

/// Whether workers clip their gradients and apply the solver's momentum in the servers' place.
[[nodiscard]] bool workers_apply_momentum(const pb::Job& job);

/// How the job's updates and values are encoded. Errors: invalid, "field: what" of the misfit.
[[nodiscard]] Result<Compression> to_compression(const pb::Job& job);

}  // namespace taut
