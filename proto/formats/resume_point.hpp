#pragma once

#include <filesystem>

#include "common/result.hpp"
#include "proto/control.pb.h"

namespace taut {

/// The checkpoint in `folder`, or the newest of those in it, as a submission names it to the
/// servers and workers that continue it. No file is read as a whole: they compare every byte that
/// they read with its digest.
/// Errors    as find_saved()
[[nodiscard]] Result<pb::ResumePoint> resume_point(const std::filesystem::path& folder);

}  // namespace taut
