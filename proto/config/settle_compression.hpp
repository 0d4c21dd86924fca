#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/compression.hpp"
#include "proto/job.pb.h"

namespace taut {

/// What is wrong with a field of a job's compression.
struct Misfit {
  const char* list = "";   // in the compression: "push" or "pull"
  int index = 0;           // of the element in that list, from 0
  const char* field = "";  // its name
  std::string what;        // with its path
};

/// The first field of a job's compression that is out of its range, or that cannot be combined with
/// the rest of the job; nullopt if there is none.
[[nodiscard]] std::optional<Misfit> misfit_of_compression(const pb::Job& job);

/// Whether a scheme is still to be chosen: AUTO.
[[nodiscard]] bool chooses_compression(const pb::Job& job);

/// What AUTO chooses from, the most exact first; for any other scheme, that one alone.
[[nodiscard]] std::vector<pb::PushCompression::Scheme> candidates(const pb::PushCompression& push);
[[nodiscard]] std::vector<pb::PullCompression::Scheme> candidates(const pb::PullCompression& pull);

/// A copy with a scheme in place of AUTO, without the fields of other schemes.
[[nodiscard]] pb::PushCompression with_scheme(const pb::PushCompression& push,
                                              pb::PushCompression::Scheme scheme);
[[nodiscard]] pb::PullCompression with_scheme(const pb::PullCompression& pull,
                                              pb::PullCompression::Scheme scheme);

/// The encoding of a scheme.
[[nodiscard]] math::Encoding encoding_of(const pb::PushCompression& push);
[[nodiscard]] math::Encoding encoding_of(const pb::PullCompression& pull);

/// Whether workers may keep a part of their updates for later ones.
[[nodiscard]] bool keeps_residuals(const pb::Job& job);

/// Whether workers clip their gradients and apply the solver's momentum in the servers' place.
[[nodiscard]] bool workers_apply_momentum(const pb::Job& job);

/// How the job's updates and values are encoded; as FLOAT32 while it is still to be chosen. Errors:
/// invalid, "field: what" of the misfit.
[[nodiscard]] Result<Compression> to_compression(const pb::Job& job);

}  // namespace taut
