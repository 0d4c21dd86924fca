#include "cli/commands/training/run_files.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/run_origin.hpp"
#include "common/files/file.hpp"
#include "proto/formats/run_json.hpp"
#include "worker/data/text_source.hpp"
#include "worker/model/job/job_data.hpp"

namespace taut::cli {

namespace fs = std::filesystem;

Result<void> write_origin(const pb::Job& job, const std::string& kind, const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "run.json", ignored)) return ok();
  return write_run_json(folder, begin_run_json(kind, job.name(), run_origin()));
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
