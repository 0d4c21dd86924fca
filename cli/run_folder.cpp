#include "cli/run_folder.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <system_error>

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

Error cannot_make(const fs::path& folder, const std::error_code& why) {
  return make_error(ErrorCode::kIo, fmt::format("cannot make the run's folder {}: {}; name another "
                                                "with --output",
                                                folder.string(), why.message()));
}

/// The name with everything that is special in a path replaced.
std::string as_file_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return name.empty() ? "job" : name;
}

}  // namespace

Result<fs::path> make_run_folder(const fs::path& requested, const std::string& job_name) {
  std::error_code failed;
  if (!requested.empty()) {
    fs::create_directories(requested, failed);
    if (failed) return cannot_make(requested, failed);
    return requested;
  }
  fs::create_directories("runs", failed);
  if (failed) return cannot_make("runs", failed);
  const std::string stem =
      fmt::format("{:%Y-%m-%d}-{}", fmt::localtime(std::time(nullptr)), as_file_name(job_name));
  for (int number = 1;; ++number) {
    const fs::path folder = fs::path("runs") / fmt::format("{}-{}", stem, number);
    if (fs::create_directory(folder, failed)) return folder;
    if (failed) return cannot_make(folder, failed);
  }
}

}  // namespace taut::cli
