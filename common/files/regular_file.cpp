#include "common/files/regular_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "common/files/allowed_folders.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

Error failed(const fs::path& path, const char* step, int reason) {
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path.string(), step,
                                                std::generic_category().message(reason)));
}

Error cannot_open(const fs::path& path, int reason) {
  if (reason != ENOENT && reason != ENOTDIR) return failed(path, "be opened", reason);
  return make_error(ErrorCode::kNotFound, fmt::format("{}: no such file", path.string()));
}

Result<void> check_regular(const fs::path& path, const Descriptor& file) {
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return failed(path, "be looked at", errno);
  if (S_ISDIR(found.st_mode)) {
    return invalid(fmt::format("{}: is a folder, not a file", path.string()));
  }
  if (S_ISREG(found.st_mode)) return ok();
  return invalid(fmt::format("{}: is a pipe, a socket or a device, not a file", path.string()));
}

Result<Descriptor> regular(const fs::path& path, Descriptor file) {
  TAUT_TRY(check_regular(path, file));
  return file;
}

}  // namespace

Result<Descriptor> open_to_read(const fs::path& path) {
  // It is checked before it is opened: merely opening a pipe or a device has side effects.
  const Descriptor place(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (place.get() < 0) return cannot_open(path, errno);
  TAUT_TRY(check_opened(place.get(), path));
  TAUT_TRY(check_regular(path, place));
  // If access is restricted, the file that was checked is the one that is read, even if its name
  // leads to another one by now.
  const std::string name =
      are_files_limited() ? fmt::format("/proc/self/fd/{}", place.get()) : path.string();
  Descriptor file(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return cannot_open(path, errno);
  return regular(path, std::move(file));
}

namespace {

/// Opens the folder of a file to be written; the file must be within the limit.
Result<Descriptor> open_folder_of(const fs::path& path, const fs::path& shown) {
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  Descriptor folder(open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return failed(shown, "be created", errno);
  TAUT_TRY(check_opened(folder.get(), shown, path.filename()));
  return folder;
}

constexpr int kToCreate = O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
constexpr mode_t kMode = 0644;

}  // namespace

Result<Descriptor> open_to_write(const fs::path& path, int flags, const fs::path& shown) {
  const fs::path& name = shown.empty() ? path : shown;
  TAUT_TRY(const Descriptor folder, open_folder_of(path, name));
  Descriptor file(openat(folder.get(), path.filename().c_str(), flags | kToCreate, kMode));
  if (file.get() < 0) return failed(name, "be created", errno);
  return regular(name, std::move(file));
}

Result<Descriptor> create_anew(const fs::path& path, int flags, const fs::path& shown) {
  constexpr int kTries = 10;  // another process may create it again
  const fs::path& name = shown.empty() ? path : shown;
  TAUT_TRY(const Descriptor folder, open_folder_of(path, name));
  for (int i = 0; i < kTries; ++i) {
    Descriptor file(
        openat(folder.get(), path.filename().c_str(), flags | kToCreate | O_EXCL, kMode));
    if (file.get() >= 0) return file;
    if (errno != EEXIST) return failed(name, "be created", errno);
    if (unlinkat(folder.get(), path.filename().c_str(), 0) != 0 && errno != ENOENT) break;
  }
  return failed(name, "be created", errno);
}

}  // namespace taut
