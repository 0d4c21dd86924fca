#include "cli/commands/training/run_files.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "cli/run_origin.hpp"
#include "common/files/file.hpp"
#include "proto/wire_version.hpp"
#include "worker/data/text_source.hpp"
#include "worker/model/job/job_data.hpp"

namespace taut::cli {

namespace fs = std::filesystem;

Result<void> write_origin(const pb::Job& job, const std::string& kind, const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "run.json", ignored)) return ok();
  const pb::RunOrigin origin = run_origin();
  const nlohmann::ordered_json about = {
      {"kind", kind},
      {"name", job.name()},
      {"began", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"command", std::vector<std::string>(origin.command().begin(), origin.command().end())},
      {"host", origin.host()},
      {"working_folder", origin.folder()},
      {"project", origin.project()},
      {"build", build_name()}};
  return write_file_atomically(
      folder / "run.json",
      about.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Result<void> write_vocabularies(const pb::Job& job, const fs::path& folder) {
  TAUT_TRY(const auto layers, model::data_of(job, pb::TRAIN));
  for (const auto& [layer, place] : layers) {
    if (layer.data_param().backend() != pb::DataParameter::TEXT) continue;
    TAUT_TRY(const auto vocabulary, data::text_vocabulary(layer.text_param(), place.folder));
    TAUT_TRY(write_file_atomically(folder / fmt::format("vocabulary_{}.txt", layer.name()),
                                   vocabulary.to_file()));
  }
  return ok();
}

}  // namespace taut::cli
