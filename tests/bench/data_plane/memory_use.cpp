#include "tests/bench/data_plane/memory_use.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace taut::bench {
namespace {

namespace fs = std::filesystem;

/// The inodes of the unnamed memory that a process has descriptors of.
std::set<std::uint64_t> own_shared_memory(int pid) {
  std::set<std::uint64_t> inodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    std::error_code closed;
    if (!fs::read_symlink(entry.path(), closed).string().starts_with("/memfd:")) continue;
    struct stat status = {};
    if (stat(entry.path().c_str(), &status) == 0) inodes.insert(status.st_ino);
  }
  return inodes;
}

}  // namespace

std::uint64_t own_memory(int pid) {
  const auto own = own_shared_memory(pid);
  std::ifstream smaps(fmt::format("/proc/{}/smaps", pid));
  std::uint64_t kilobytes = 0;
  bool counts = false;
  std::string line;
  while (std::getline(smaps, line)) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    words >> first >> second;
    if (!first.ends_with(':')) {
      // "begin-end rwxp offset device inode path": a new mapping.
      std::string offset;
      std::string device;
      std::uint64_t inode = 0;
      words >> offset >> device >> inode;
      counts = inode == 0 || own.contains(inode);
    } else if (first == "Rss:" && counts) {
      kilobytes += std::stoull(second);
    }
  }
  return kilobytes * 1024;
}

MemoryWatch::MemoryWatch(std::vector<int> pids)
    : pids_(std::move(pids)), peaks_(pids_.size(), 0), thread_([this] {
        while (!over_) {
          for (std::size_t i = 0; i < pids_.size(); ++i) {
            peaks_[i] = std::max(peaks_[i], own_memory(pids_[i]));
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      }) {}

std::vector<std::uint64_t> MemoryWatch::peaks() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
  return peaks_;
}

}  // namespace taut::bench
