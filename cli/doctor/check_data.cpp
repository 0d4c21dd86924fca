#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/checks.hpp"
#include "worker/model/job/job_data.hpp"

namespace taut::cli {
namespace {

Finding finding_of(const DataSetFacts& set) {
  const bool is_default = std::filesystem::path(model::kDefaultDataFolder).filename() == set.name;
  const std::string fetch =
      fmt::format("scripts/get_data {} fetches it{}", set.name,
                  is_default ? ", or apt-get install dataset-fashion-mnist" : "");
  if (set.folder.empty()) {
    const std::string found = fmt::format("{} is not here", set.name);
    // Every new user needs the default job's data.
    if (is_default) return warning("data", found, fetch);
    return fine("data", found, fetch);
  }
  const std::string folder = set.folder.string();
  if (!set.damaged.empty()) {
    return trouble("data",
                   fmt::format("{} in {}, not as published: {}", set.name, folder,
                               fmt::join(set.damaged, ", ")),
                   fmt::format("delete them, then {}", fetch));
  }
  if (!set.missing.empty()) {
    return warning("data",
                   fmt::format("{} in {} lacks {}", set.name, folder, fmt::join(set.missing, ", ")),
                   fetch);
  }
  return fine("data", fmt::format("{} in {}, SHA-256 as published", set.name, folder));
}

}  // namespace

Findings check_data(const std::vector<DataSetFacts>& sets) {
  Findings findings;
  for (const DataSetFacts& set : sets) findings.push_back(finding_of(set));
  return findings;
}

}  // namespace taut::cli
