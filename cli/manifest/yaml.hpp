#pragma once

#include <string>

#include "cli/manifest/manifest.hpp"

namespace taut::cli {

// Parts of manifests, as YAML.

/// Each line of a text, indented by `columns` columns.
[[nodiscard]] std::string indented(const std::string& text, int columns);

/// An object's metadata: the JobSet's name with a suffix, and the labels that all objects have.
[[nodiscard]] std::string metadata(const ManifestOptions& options, const std::string& suffix);

/// The JobSet with its pods.
[[nodiscard]] std::string job_set(const ManifestOptions& options);

}  // namespace taut::cli
