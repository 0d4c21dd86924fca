#include <fmt/format.h>
#include <poll.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "cli/doctor/machine.hpp"
#include "common/net/shared_arena.hpp"
#include "common/net/shared_view.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kTried(1ULL << 20U);
constexpr int kWithin_ms = 5000;

/// The other process: opens the memory as a worker opens a shard's, and reports the result.
[[noreturn]] void read_as_another(const SharedMemoryOffer& offer, int report) {
  const auto view = SharedView::open(offer);
  const std::string message = view ? "" : view.error().message;
  // No caller is left to report a broken pipe to.
  [[maybe_unused]] const auto written = write(report, message.data(), message.size());
  _exit(view ? 0 : 1);
}

/// Everything that the other process writes, until it ends or kWithin_ms have passed.
std::string hear(int report) {
  std::string message;
  std::array<char, 512> part{};
  pollfd ready{.fd = report, .events = POLLIN, .revents = 0};
  while (poll(&ready, 1, kWithin_ms) > 0) {
    const ssize_t count = read(report, part.data(), part.size());
    if (count <= 0) break;
    message.append(part.data(), static_cast<std::size_t>(count));
  }
  return message;
}

fs::path nearest_folder(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path, ignored).lexically_normal();
  while (!fs::exists(path, ignored) && path != path.root_path()) path = path.parent_path();
  return path;
}

/// Creates a file, as a run would, and removes it again.
std::string why_unwritable(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return "is not a folder";
  std::string pattern = (folder / ".tautline-doctor-XXXXXX").string();
  const int file = mkstemp(pattern.data());
  if (file < 0) return std::strerror(errno);
  const std::array<char, 4096> some{};
  const bool is_written = write(file, some.data(), some.size()) == ssize_t{some.size()};
  std::string why = is_written ? "" : "the disk is full";
  close(file);
  unlink(pattern.c_str());
  return why;
}

}  // namespace

Result<void> try_shared_memory() {
  TAUT_TRY(const auto arena, SharedArena::create(kTried));
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return make_error(ErrorCode::kIo, fmt::format("pipe: {}", std::strerror(errno)));
  }
  const pid_t other = fork();
  if (other == 0) {
    close(ends[0]);
    read_as_another(arena->offer(), ends[1]);
  }
  close(ends[1]);
  const std::string message = other > 0 ? hear(ends[0]) : "";
  close(ends[0]);
  if (other < 0) return make_error(ErrorCode::kIo, fmt::format("fork: {}", std::strerror(errno)));
  kill(other, SIGKILL);  // it has ended by now, or never will
  int status = 0;
  waitpid(other, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok();
  return make_error(ErrorCode::kIo, fmt::format("another process cannot read this one's memory: {}",
                                                message.empty() ? "it did not end" : message));
}

FolderFacts system_folder(const fs::path& path) {
  FolderFacts facts{.nearest = nearest_folder(path)};
  facts.unwritable = why_unwritable(facts.nearest);
  struct statvfs disk = {};
  if (statvfs(facts.nearest.c_str(), &disk) == 0) {
    facts.free_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize;
    // Some file systems do not count files: they report a total of 0.
    facts.free_files = disk.f_files == 0 ? UINT64_MAX : std::uint64_t{disk.f_favail};
  }
  return facts;
}

}  // namespace taut::cli
