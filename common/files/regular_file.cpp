#include "common/files/regular_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

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
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() >= 0) return regular(path, std::move(file));
  if (errno == ENOENT || errno == ENOTDIR) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: no such file", path.string()));
  }
  return failed(path, "be opened", errno);
}

Result<Descriptor> open_to_write(const fs::path& path, int flags, const fs::path& shown) {
  const fs::path& name = shown.empty() ? path : shown;
  const int how = O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
  Descriptor file(open(path.c_str(), flags | how, 0644));
  if (file.get() < 0) return failed(name, "be created", errno);
  return regular(name, std::move(file));
}

}  // namespace taut
