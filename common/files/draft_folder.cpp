#include "common/files/draft_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/file_writer.hpp"
#include "common/files/folder.hpp"
#include "common/files/regular_file.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLockName = "writer";

Error exists_already(const fs::path& folder) {
  return make_error(
      ErrorCode::kExists,
      fmt::format("{}: exists already; choose another name, or remove it", folder.string()));
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Whether an open file still has its name: another process may have removed it meanwhile.
bool has_name(const Descriptor& file, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// Whether an existing folder may be a draft: it has a lock file, or is empty.
bool may_be_draft(const fs::path& folder) {
  std::error_code failed;
  return fs::exists(folder / kLockName, failed) || (fs::is_empty(folder, failed) && !failed);
}

}  // namespace

DraftFolder::DraftFolder(fs::path place, fs::path draft, Descriptor lock)
    : place_(std::move(place)), draft_(std::move(draft)), lock_(std::move(lock)) {}

Result<std::unique_ptr<DraftFolder>> DraftFolder::create(const fs::path& folder) {
  std::error_code failed;
  if (fs::exists(folder, failed)) return exists_already(folder);
  // "name/" is the folder "name".
  const fs::path place = folder.has_filename() ? folder : folder.parent_path();
  fs::path draft = place;
  draft += ".part";
  fs::create_directories(parent_of(draft), failed);
  if (failed) return io_error(folder, "be created", failed);
  const bool is_new = fs::create_directory(draft, failed);
  if (failed) return io_error(draft, "be created", failed);
  if (!is_new && !may_be_draft(draft)) return exists_already(draft);
  TAUT_TRY(Descriptor lock, open_to_write(draft / kLockName, O_RDWR));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return make_error(ErrorCode::kExists,
                        fmt::format("{}: another process is writing it; wait for it, or choose "
                                    "another name",
                                    folder.string()));
    }
    // Without locks in the file system, another process may be writing it.
    if (!is_new) return exists_already(draft);
  }
  // The draft's writer ended in between, and another one may have started.
  if (!has_name(lock, draft / kLockName)) return exists_already(draft);
  std::unique_ptr<DraftFolder> draft_folder(new DraftFolder(place, draft, std::move(lock)));
  TAUT_TRY(draft_folder->remove_files());
  return draft_folder;
}

DraftFolder::~DraftFolder() {
  if (is_in_place_ || !remove_files()) return;
  // The lock file is removed last: from then on another process may start its own draft.
  std::error_code ignored;
  fs::remove(draft_ / kLockName, ignored);
  fs::remove(draft_, ignored);
}

Result<void> DraftFolder::remove_files() const {
  std::error_code failed;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(draft_, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (entry->path().filename() != kLockName) files.push_back(entry->path());
  }
  for (const fs::path& file : files) {
    if (!failed) fs::remove(file, failed);
  }
  if (failed) return io_error(draft_, "be emptied", failed);
  return ok();
}

Result<void> DraftFolder::put_in_place() {
  // The names of its files must be on the disk before its own name is.
  TAUT_TRY(flush_folder(draft_));
  if (::rename(draft_.c_str(), place_.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST) return exists_already(place_);
    return io_error(place_, "be put in place");
  }
  is_in_place_ = true;
  std::error_code ignored;
  fs::remove(place_ / kLockName, ignored);
  return flush_folder(parent_of(place_));
}

}  // namespace taut
