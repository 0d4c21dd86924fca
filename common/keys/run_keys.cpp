#include "common/keys/run_keys.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <random>
#include <system_error>
#include <utility>

#include "common/keys/http_secret.hpp"
#include "common/keys/key_file.hpp"
#include "common/keys/key_folder.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

// The user's own key files that make the run a part of the user's cluster.
constexpr std::array<const char*, 3> kShared = {"cluster.key", "owner.key", "admitted/owner"};
constexpr const char* kRunFile = "run";

Result<void> copy_own_keys(const fs::path& folder) {
  TAUT_TRY(const fs::path own, ensure_own_keys());
  for (const char* name : kShared) {
    TAUT_TRY(const std::string text, read_private_file(own / name));
    TAUT_TRY(write_private_file(folder / name, text));
  }
  TAUT_TRY(const std::string secret, ensure_http_secret(own));
  TAUT_TRY(write_private_file(folder / kHttpSecretFile, secret + "\n"));
  return ok();
}

Result<void> fill(const fs::path& folder) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  // New keys first: if the user's own can be neither read nor made, the run has only new keys.
  TAUT_TRY(init_keys(folder));
  if (auto copied = copy_own_keys(folder); copied) return ok();
  fs::remove_all(folder, failed);
  return init_keys(folder);
}

/// Makes the folder with a file that identifies the run.
Result<void> fill_for(const fs::path& folder, const std::string& run) {
  TAUT_TRY(fill(folder));
  return write_private_file(folder / kRunFile, run);
}

Result<fs::path> temporary_folder() {
  std::string pattern = (fs::temp_directory_path() / "tautline-keys-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return make_error(ErrorCode::kIo, fmt::format("{}: cannot be made: {}", pattern,
                                                  std::generic_category().message(errno)));
  }
  return fs::path(pattern) / "keys";
}

}  // namespace

Result<RunKeys> RunKeys::make(const fs::path& folder) {
  std::random_device random;
  const std::string run = fmt::format("{:08x}{:08x}\n", random(), random());
  const fs::path wanted = fs::absolute(folder);
  if (const auto filled = fill_for(wanted, run); filled) return RunKeys(wanted, run);
  std::error_code none;
  fs::remove_all(wanted, none);
  TAUT_TRY(const fs::path other, temporary_folder());
  if (const auto filled = fill_for(other, run); !filled) {
    fs::remove_all(other.parent_path(), none);
    return filled.error();
  }
  return RunKeys(other, run);
}

RunKeys::~RunKeys() {
  remove();
}

RunKeys& RunKeys::operator=(RunKeys&& other) noexcept {
  if (this == &other) return *this;
  remove();
  folder_ = std::exchange(other.folder_, {});
  run_ = std::move(other.run_);
  return *this;
}

void RunKeys::remove() {
  if (folder_.empty()) return;
  const auto run = read_private_file(folder_ / kRunFile);
  if (!run || run.value() != run_) return;  // the next run's, which may not be complete yet
  std::error_code none;
  fs::remove_all(folder_, none);
  // A temporary folder made by temporary_folder() is empty now; a run's folder is not.
  if (folder_.parent_path().filename().string().starts_with("tautline-keys-")) {
    fs::remove(folder_.parent_path(), none);
  }
}

}  // namespace taut
