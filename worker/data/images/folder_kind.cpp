#include "worker/data/images/folder_kind.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>

namespace taut::data {
namespace fs = std::filesystem;
namespace {

/// A LevelDB names its newest manifest in CURRENT.
/// Source    github.com/google/leveldb, doc/impl.md
bool is_leveldb(const fs::path& folder) {
  std::error_code failed;
  if (!fs::exists(folder / "CURRENT", failed)) return false;
  // An iterator that failed compares equal to the end.
  for (fs::directory_iterator file(folder, failed); file != fs::directory_iterator();
       file.increment(failed)) {
    if (file->path().filename().string().starts_with("MANIFEST-")) return true;
  }
  return false;
}

}  // namespace

FolderKind kind_of(const fs::path& folder) {
  std::error_code ignored;
  const auto holds = [&](const std::string& name) { return fs::exists(folder / name, ignored); };
  if (holds("data.mdb")) return FolderKind::kLmdb;
  if (holds("data_batch_1.bin") || holds("test_batch.bin")) return FolderKind::kCifar10;
  for (const std::string name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"}) {
    if (holds(name) || holds(name + ".gz")) return FolderKind::kIdx;
  }
  return is_leveldb(folder) ? FolderKind::kLevelDb : FolderKind::kOther;
}

Error no_leveldb(const fs::path& folder) {
  return make_error(
      ErrorCode::kInvalid,
      fmt::format("{}: is a LevelDB, which is not supported: convert its images to an LMDB with "
                  "tautline convert, or name another data set with the job's data {{ folder: ... "
                  "}}, or with --data",
                  folder.string()));
}

}  // namespace taut::data
