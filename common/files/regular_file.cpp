#include "common/files/regular_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
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

Result<Descriptor> regular(const fs::path& path, Descriptor file) {
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return failed(path, "be looked at", errno);
  if (S_ISDIR(found.st_mode)) {
    return invalid(fmt::format("{}: is a folder, not a file", path.string()));
  }
  if (!S_ISREG(found.st_mode)) {
    return invalid(fmt::format("{}: is a pipe, a socket or a device, not a file", path.string()));
  }
  return file;
}

}  // namespace

Result<Descriptor> open_to_read(const fs::path& path) {
  const int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  // Where files are limited, what is read is the file that was looked at, whatever its name leads
  // to by then.
  Descriptor place(are_files_limited() ? open(path.c_str(), O_PATH | O_CLOEXEC) : -1);
  if (place.get() >= 0) {
    TAUT_TRY(check_opened(place.get(), path));
    Descriptor file(open(fmt::format("/proc/self/fd/{}", place.get()).c_str(), how));
    if (file.get() < 0) return failed(path, "be opened", errno);
    return regular(path, std::move(file));
  }
  Descriptor file(are_files_limited() ? -1 : open(path.c_str(), how));
  if (file.get() >= 0) return regular(path, std::move(file));
  if (errno == ENOENT || errno == ENOTDIR) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: no such file", path.string()));
  }
  return failed(path, "be opened", errno);
}

Result<Descriptor> open_to_write(const fs::path& path, int flags, const fs::path& shown) {
  const fs::path& name = shown.empty() ? path : shown;
  const int how = flags | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const Descriptor folder(open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return failed(name, "be created", errno);
  TAUT_TRY(check_opened(folder.get(), name, path.filename()));
  Descriptor file(openat(folder.get(), path.filename().c_str(), how, 0644));
  if (file.get() < 0) return failed(name, "be created", errno);
  return regular(name, std::move(file));
}

}  // namespace taut
