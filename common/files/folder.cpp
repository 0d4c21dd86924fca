#include "common/files/folder.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <vector>

namespace taut {
namespace fs = std::filesystem;

Error io_error(const fs::path& path, const char* step, const std::error_code& reason) {
  return make_error(ErrorCode::kIo,
                    fmt::format("{}: cannot {}: {}", path.string(), step, reason.message()));
}

Error io_error(const fs::path& path, const char* step) {
  return io_error(path, step, std::error_code(errno, std::generic_category()));
}

Result<void> remove_files(const fs::path& folder, const std::string& first,
                          const std::function<bool(const std::string&)>& is_taken) {
  std::error_code failed;
  if (!fs::exists(folder, failed)) return ok();
  fs::remove(folder / first, failed);
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (is_taken(entry->path().filename().string())) files.push_back(entry->path());
  }
  for (const fs::path& file : files) {
    if (!failed) fs::remove(file, failed);
  }
  if (!failed) fs::remove(folder, failed);
  if (failed) return io_error(folder, "be removed", failed);
  return ok();
}

}  // namespace taut
