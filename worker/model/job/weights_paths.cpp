#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "common/files/file.hpp"
#include "worker/model/weights.hpp"

namespace taut::model {
namespace {

namespace fs = std::filesystem;

/// Caffe separates several files by commas.
std::vector<std::string> separated(const google::protobuf::RepeatedPtrField<std::string>& field) {
  std::vector<std::string> files;
  for (const std::string& entry : field) {
    std::size_t begin = 0;
    while (begin <= entry.size()) {
      const std::size_t end = std::min(entry.find(',', begin), entry.size());
      std::string file = entry.substr(begin, end - begin);
      if (!file.empty()) files.push_back(std::move(file));
      begin = end + 1;
    }
  }
  return files;
}

/// Errors    not_found, for a relative path: an absolute one may exist on the daemons' machines
///           only
Result<std::string> absolute(const std::string& file, const fs::path& mentioned_in) {
  const auto found = find_mentioned(file, mentioned_in);
  if (!found) {
    if (fs::path(file).is_absolute()) return file;
    return make_error(found.error().code,
                      fmt::format("{}: weights {}", mentioned_in.string(), found.error().message));
  }
  std::error_code failed;
  const fs::path whole = fs::absolute(found.value(), failed);
  return failed ? file : whole.lexically_normal().string();
}

}  // namespace

Result<void> settle_weights(const fs::path& job_path, const fs::path& solver_path, pb::Job& job) {
  const bool from_job = job.weights_size() > 0;
  const auto files = separated(from_job ? job.weights() : job.solver_param().weights());
  job.clear_weights();
  job.mutable_solver_param()->clear_weights();
  for (const std::string& file : files) {
    TAUT_TRY(*job.add_weights(), absolute(file, from_job ? job_path : solver_path));
  }
  return ok();
}

}  // namespace taut::model
