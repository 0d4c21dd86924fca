#include "cli/install_paths.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <system_error>

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace

Result<fs::path> configs_folder() {
  if (const char* named = std::getenv("TAUTLINE_CONFIGS"); named != nullptr) {
    if (is_folder(named)) return fs::path(named);
    return make_error(ErrorCode::kNotFound,
                      fmt::format("TAUTLINE_CONFIGS=\"{}\" is not a folder", named));
  }
  const fs::path installed = program_folder() / "../share/tautline/configs";
  if (is_folder(installed)) return installed.lexically_normal();
  // From <source>/build-folder/bin, or <source>/build/<preset>/bin, up to the source tree.
  constexpr int kLevels = 4;
  fs::path above = program_folder();
  for (int level = 0; level < kLevels; ++level, above = above.parent_path()) {
    if (is_folder(above / "configs" / "jobs")) return above / "configs";
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("no configurations near {}; set TAUTLINE_CONFIGS to the folder",
                                program_folder().string()));
}

Result<fs::path> sibling_program(const std::string& name) {
  const fs::path sibling = program_folder() / name;
  if (access(sibling.c_str(), X_OK) == 0) return sibling;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder) / name;
    if (!folder.empty() && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{} is neither in {} nor on the PATH; build or install it", name,
                                program_folder().string()));
}

}  // namespace taut::cli
