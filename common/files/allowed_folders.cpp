#include "common/files/allowed_folders.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <system_error>

namespace taut {
namespace {

namespace fs = std::filesystem;

struct Limit {
  bool is_set = false;
  std::vector<std::string> folders;
  std::vector<std::string> files;
};

Limit& limit() {
  static Limit the_limit;
  return the_limit;
}

/// The path without links and dots, as far as it exists; empty if it cannot be resolved.
std::string resolved(const fs::path& path) {
  std::error_code failed;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, failed), failed);
  std::string text = failed ? std::string() : whole.lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

/// False for an empty folder, which is one that could not be resolved.
bool is_within(const std::string& path, const std::string& folder) {
  if (folder.empty()) return false;
  if (folder == "/" || path == folder) return true;
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

Result<void> check(const std::string& path, const fs::path& shown) {
  const bool is_allowed =
      !path.empty() &&
      (std::ranges::any_of(limit().folders,
                           [&](const std::string& folder) { return is_within(path, folder); }) ||
       std::ranges::any_of(limit().files, [&](const std::string& file) {
         return !file.empty() && (path == file || path.starts_with(file + ".part"));
       }));
  if (is_allowed) return ok();
  return invalid(fmt::format(
      "{}: is outside of the folders that this process may open: {}; move it there, or add its "
      "folder to allowed_folders in the cluster file",
      shown.string(), fmt::join(limit().folders, ", ")));
}

}  // namespace

void limit_files_to(const std::vector<fs::path>& folders, const std::vector<fs::path>& files) {
  Limit set;
  set.is_set = !folders.empty();
  for (const fs::path& folder : folders) set.folders.push_back(resolved(folder));
  for (const fs::path& file : files) set.files.push_back(resolved(file));
  limit() = std::move(set);
}

bool are_files_limited() {
  return limit().is_set;
}

Result<void> check_place(const fs::path& path) {
  return are_files_limited() ? check(resolved(path), path) : ok();
}

Result<void> check_opened(int file, const fs::path& shown, const fs::path& inside) {
  if (!are_files_limited()) return ok();
  std::error_code failed;
  fs::path place = fs::read_symlink(fmt::format("/proc/self/fd/{}", file), failed);
  if (!inside.empty()) place /= inside;
  return check(failed ? std::string() : place.string(), shown);
}

}  // namespace taut
