#include "common/files/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>

#include "common/files/gz_stream.hpp"
#include "common/files/regular_file.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace

Result<std::string> read_file(const fs::path& path, Bytes limit) {
  TAUT_TRY(const Descriptor file, open_to_read(path));
  std::string bytes;
  char block[1 << 16];
  while (true) {
    const ssize_t count = read(file.get(), block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return make_error(ErrorCode::kIo,
                        fmt::format("{}: cannot be read: {}", path.string(), reason(errno)));
    }
    if (count == 0) break;
    bytes.append(block, static_cast<std::size_t>(count));
    if (bytes.size() > limit.value()) {
      return invalid(
          fmt::format("{}: larger than the limit of {} bytes", path.string(), limit.value()));
    }
  }
  return bytes;
}

Result<std::string> read_file_gz(const fs::path& path, Bytes limit) {
  TAUT_TRY(GzStream stream, GzStream::open(path));
  const Bytes most = in_memory_limit(limit);
  std::string bytes;
  char block[1 << 16];
  while (true) {
    TAUT_TRY(const std::size_t count, stream.read(std::as_writable_bytes(std::span(block))));
    if (count > most.value() - bytes.size()) {
      return invalid(fmt::format("{}: {} more than the limit of {} bytes{}", path.string(),
                                 stream.is_packed() ? "decompresses to" : "has", most.value(),
                                 most < limit ? ", half of the available memory" : ""));
    }
    bytes.append(block, count);
    if (count < sizeof block) return bytes;
  }
}

Result<void> write_file_atomically(const fs::path& path, std::string_view bytes) {
  const auto failed = [&](const char* step) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot {}: {}", path.string(), step, reason(errno)));
  };
  const std::string partial = path.string() + ".part" + std::to_string(getpid());
  TAUT_TRY(Descriptor file, create_anew(partial, O_WRONLY, path));
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = write(file.get(), bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      Error error = failed("be written");
      unlink(partial.c_str());
      return error;
    }
    written += static_cast<std::size_t>(count);
  }
  const bool flushed = fsync(file.get()) == 0;
  const bool closed = file.close();
  if (!flushed || !closed || rename(partial.c_str(), path.c_str()) != 0) {
    Error error = failed("be put in place");
    unlink(partial.c_str());
    return error;
  }
  return ok();
}

Result<fs::path> find_mentioned(const fs::path& path, const fs::path& mentioned_in) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  std::string tried = path.string();
  if (path.is_relative() && !mentioned_in.empty()) {
    fs::path folder = fs::absolute(mentioned_in, ignored).parent_path();
    while (true) {
      const fs::path candidate = folder / path;
      if (fs::exists(candidate, ignored)) return candidate;
      tried += ", " + candidate.string();
      if (folder == folder.parent_path()) break;
      folder = folder.parent_path();
    }
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: not found; looked for {}", path.string(), tried));
}

}  // namespace taut
