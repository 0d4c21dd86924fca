#include "common/keys/folder_admission.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <system_error>
#include <utility>

#include "common/keys/key_file.hpp"
#include "common/log.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

// Per folder; a folder with more is not one of a cluster's keys.
constexpr std::size_t kMaxAdmitted = 65536;

}  // namespace

Result<std::shared_ptr<FolderAdmission>> FolderAdmission::open(fs::path folder) {
  std::shared_ptr<FolderAdmission> admission(new FolderAdmission(std::move(folder)));
  TAUT_TRY(admission->read());
  return admission;
}

std::shared_ptr<const Identity> FolderAdmission::find(std::string_view public_key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = holders_.find(public_key);
  return found == holders_.end() ? nullptr : found->second;
}

void FolderAdmission::refresh() {
  if (const auto is_read = read(); !is_read) {
    warn_once(fmt::format("the admitted keys hold as they were: {}", is_read.error().message));
  }
}

void FolderAdmission::warn_once(const std::string& text) {
  if (std::exchange(warned_, text) != text) log::warn("{}", text);
}

/// Lists the key files, without reading them.
Result<std::map<std::string, FolderAdmission::Seen>> FolderAdmission::look() const {
  TAUT_TRY(check_private_folder(folder_));
  std::map<std::string, Seen> files;
  std::error_code failed;
  fs::directory_iterator entries(folder_, failed);
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
    const std::string name = entries->path().filename().string();
    struct stat found {};
    if (!is_key_name(name) || lstat(entries->path().c_str(), &found) != 0) continue;
    constexpr std::int64_t kNanoseconds = 1'000'000'000;
    files[name] = {found.st_ino, static_cast<std::uint64_t>(found.st_size),
                   found.st_ctim.tv_sec * kNanoseconds + found.st_ctim.tv_nsec};
    if (files.size() > kMaxAdmitted) {
      return invalid(fmt::format("{}: more than {} keys", folder_.string(), kMaxAdmitted));
    }
  }
  if (failed) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot be listed: {}", folder_.string(), failed.message()));
  }
  return files;
}

Result<void> FolderAdmission::read() {
  const std::scoped_lock lock(refresh_mutex_);
  TAUT_TRY(auto files, look());
  if (files == seen_) return ok();
  Holders holders;
  for (const auto& [name, seen] : files) {
    const fs::path path = folder_ / name;
    const auto text = read_private_file(path);
    const auto file = text ? parse_key_file(text.value(), path.string()) : text.error();
    if (!file) {
      // A key that was revoked since the folder was listed is not an error.
      if (file.error().code != ErrorCode::kNotFound) warn_once(file.error().message);
      continue;
    }
    if (file.value().identity.name != name) {
      warn_once(fmt::format("{}: names \"{}\", so it admits no key", path.string(),
                            file.value().identity.name));
      continue;
    }
    holders.emplace(file.value().own.public_key, std::make_shared<Identity>(file.value().identity));
  }
  seen_ = std::move(files);
  const std::scoped_lock holders_lock(mutex_);
  holders_ = std::move(holders);
  return ok();
}

}  // namespace taut
