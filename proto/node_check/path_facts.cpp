#include "proto/node_check/path_facts.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/allowed_folders.hpp"
#include "common/files/regular_file.hpp"
#include "common/files/sha256.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kEndBytes = std::size_t{64} << 10U;

std::string reason(int number) {
  return std::generic_category().message(number);
}

/// The names and sizes of a folder's first entries as one digest. Machines list the same entries in
/// different orders.
std::string contents_of_folder(const fs::path& folder, std::size_t max_entries,
                               std::uint64_t& entries) {
  std::vector<std::string> lines;  // a heap
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    ++entries;
    std::string line = entry->path().filename().string() + " ";
    // The size is not read of an entry whose name alone places it later.
    if (lines.size() == max_entries && line > lines.front()) continue;
    std::error_code none;
    const bool is_file = entry->is_regular_file(none);
    line += fmt::format("{}\n", is_file ? entry->file_size(none) : 0);
    lines.push_back(std::move(line));
    std::ranges::push_heap(lines);
    if (lines.size() <= max_entries) continue;
    std::ranges::pop_heap(lines);
    lines.pop_back();
  }
  std::ranges::sort(lines);
  Sha256 digest;
  for (const std::string& line : lines) digest.update(std::as_bytes(std::span(line)));
  return digest.finish();
}

/// Errors    as open_to_read(), and io
Result<std::string> contents_of_file(const fs::path& path, std::uint64_t size) {
  TAUT_TRY(const Descriptor file, open_to_read(path));
  std::vector<std::byte> bytes(kEndBytes);
  Sha256 digest;
  const std::uint64_t tail = size > kEndBytes ? size - kEndBytes : 0;
  for (const std::uint64_t at : {std::uint64_t{0}, tail}) {
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (got < 0) return make_error(ErrorCode::kIo, reason(errno));
    digest.update(std::span(bytes).first(static_cast<std::size_t>(got)));
    if (tail == 0) break;
  }
  return digest.finish();
}

/// The path, or the closest folder above it that exists.
fs::path nearest_of(const fs::path& path) {
  std::error_code none;
  fs::path nearest = path;
  while (!fs::exists(nearest, none) && nearest.has_relative_path()) nearest = nearest.parent_path();
  return nearest;
}

}  // namespace

pb::PathFacts describe_path(const std::string& path, std::size_t max_entries) {
  pb::PathFacts facts;
  facts.set_path(path);
  std::error_code failed;
  const fs::path whole = fs::absolute(path, failed).lexically_normal();
  facts.set_whole(whole.string());
  if (const auto allowed = check_place(whole); !allowed) {
    facts.set_error(allowed.error().message);
    return facts;
  }
  const fs::path nearest = nearest_of(whole);
  struct stat found = {};
  if (failed || ::stat(nearest.c_str(), &found) != 0) {
    facts.set_error(failed ? failed.message() : reason(errno));
    return facts;
  }
  facts.set_exists(nearest == whole);
  facts.set_is_folder(S_ISDIR(found.st_mode));
  facts.set_inode(found.st_ino);
  facts.set_changed_ns(std::int64_t{found.st_ctim.tv_sec} * 1'000'000'000 + found.st_ctim.tv_nsec);
  facts.set_is_writable(::access(nearest.c_str(), facts.is_folder() ? W_OK | X_OK : W_OK) == 0);
  if (facts.is_folder()) {
    std::uint64_t entries = 0;
    facts.set_contents(contents_of_folder(nearest, max_entries, entries));
    facts.set_size(entries);
    return facts;
  }
  facts.set_size(static_cast<std::uint64_t>(found.st_size));
  const auto contents = contents_of_file(nearest, facts.size());
  if (contents) {
    facts.set_contents(contents.value());
  } else {
    facts.set_error(contents.error().message);
  }
  return facts;
}

}  // namespace taut
