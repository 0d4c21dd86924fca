#include "cli/manifest/pod_paths.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "worker/model/job/job_data.hpp"
#include "worker/model/job/job_nets.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

/// A path in the job, and its readable description.
struct JobPath {
  std::string what;
  std::string path;
};

void add(std::vector<JobPath>& paths, const char* what, const std::string& path) {
  const bool is_known =
      std::ranges::any_of(paths, [&](const JobPath& one) { return one.path == path; });
  if (!path.empty() && !is_known) paths.push_back({what, path});
}

Result<std::vector<JobPath>> data_paths(const pb::Job& job) {
  std::vector<JobPath> paths;
  for (const model::NetChoice& choice : model::nets_of(job)) {
    TAUT_TRY(const auto layers, model::data_of(job, choice));
    for (const model::LayerData& layer : layers) {
      for (const std::string& path : {layer.place.folder, layer.place.images, layer.place.labels}) {
        add(paths, "data", path);
      }
    }
  }
  return paths;
}

/// What a job names in addition to its data.
std::vector<JobPath> other_paths(const pb::Job& job) {
  std::vector<JobPath> paths;
  for (const std::string& file : job.weights()) add(paths, "weights", file);
  add(paths, "resume", job.resume());
  std::vector<const pb::NetParameter*> nets{&job.net_param()};
  for (const auto& net : job.solver_param().test_net_param()) nets.push_back(&net);
  for (const pb::NetParameter* net : nets) {
    for (const pb::LayerParameter& layer : net->layer()) {
      add(paths, "mean_file", layer.transform_param().mean_file());
      add(paths, "root_folder", layer.image_data_param().root_folder());
      add(paths, "vocabulary_source", layer.text_param().vocabulary_source());
      add(paths, "infogain_loss_param.source", layer.infogain_loss_param().source());
    }
  }
  return paths;
}

/// The folder that contains the file, or the folder itself. A path that is not on this machine is a
/// file if its name has an extension.
std::string folder_of(const fs::path& path) {
  std::error_code failed;
  fs::path plain = path.lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  const bool is_file =
      fs::exists(plain, failed) ? !fs::is_directory(plain, failed) : plain.has_extension();
  return (is_file ? plain.parent_path() : plain).string();
}

bool is_within(const fs::path& path, const fs::path& folder) {
  const fs::path plain = path.lexically_normal();
  return std::ranges::mismatch(folder, plain).in1 == folder.end();
}

}  // namespace

Result<std::vector<std::string>> pod_folders(const ManifestOptions& options, const pb::Job& job) {
  std::vector<std::string> folders{kRunsFolder};
  if (!options.data_claim.empty()) {
    folders.emplace_back(kDataFolder);
    return folders;
  }
  TAUT_TRY(const auto paths, data_paths(job));
  for (const JobPath& data : paths) {
    if (!fs::path(data.path).is_absolute()) continue;
    std::string folder = folder_of(data.path);
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
  }
  return folders;
}

Result<std::vector<std::string>> closed_paths(const ManifestOptions& options, const pb::Job& job) {
  TAUT_TRY(const auto folders, pod_folders(options, job));
  TAUT_TRY(auto paths, data_paths(job));
  for (const JobPath& one : other_paths(job)) paths.push_back(one);
  std::vector<std::string> lines;
  for (const JobPath& one : paths) {
    const bool is_open = fs::path(one.path).is_absolute() &&
                         std::ranges::any_of(folders, [&](const std::string& folder) {
                           return is_within(one.path, folder);
                         });
    if (is_open) continue;
    lines.push_back(fmt::format(
        "{} \"{}\": pods open nothing outside of {}: put it on a claim, and name it there",
        one.what, one.path, fmt::join(folders, ", ")));
  }
  return lines;
}

}  // namespace taut::cli
