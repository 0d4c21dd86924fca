#include "common/keys/key_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "common/keys/folder_admission.hpp"
#include "common/keys/key_file.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

constexpr const char* kOwner = "owner";
constexpr const char* kCluster = "cluster";

fs::path key_path(const fs::path& folder, const std::string& name) {
  return folder / (name + ".key");
}

fs::path admitted_path(const fs::path& folder) {
  return folder / "admitted";
}

/// Makes a folder that only its owner can use; one that exists is only checked.
Result<void> make_private_folder(const fs::path& folder) {
  std::error_code failed;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), failed);
  if (!failed && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    failed = std::error_code(errno, std::generic_category());
  }
  if (!failed) return check_private_folder(folder);
  return make_error(
      ErrorCode::kIo,
      fmt::format("{}: keys cannot be kept there: {}; name another folder with keys: in the "
                  "cluster file, or with XDG_CONFIG_HOME",
                  folder.string(), failed.message()));
}

/// Held while a folder of keys changes, so that two processes do not make its keys at once.
class FolderLock {
 public:
  [[nodiscard]] static Result<FolderLock> take(const fs::path& folder) {
    const fs::path path = folder / ".lock";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 || flock(file, LOCK_EX) != 0) {
      const int reason = errno;
      if (file >= 0) close(file);
      return make_error(ErrorCode::kIo, fmt::format("{}: cannot be locked: {}", path.string(),
                                                    std::generic_category().message(reason)));
    }
    return FolderLock(file);
  }
  ~FolderLock() {
    if (file_ >= 0) close(file_);
  }
  FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  explicit FolderLock(int file) : file_(file) {}
  int file_;
};

Result<KeyFile> read_key(const fs::path& path) {
  TAUT_TRY(const std::string text, read_private_file(path));
  TAUT_TRY(KeyFile file, parse_key_file(text, path.string()));
  return file;
}

bool has_keys(const fs::path& folder) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".key") return true;
  }
  return false;
}

/// Makes a key pair for an identity, and admits it. REQUIRES: the folder's lock.
Result<fs::path> make_key(const fs::path& folder, Identity identity, const KeyPair& cluster) {
  KeyFile file;
  file.identity = std::move(identity);
  file.own = make_key_pair();
  file.cluster_key = cluster.public_key;
  const KeyRole role = file.identity.role;
  if (role == KeyRole::kServer || role == KeyRole::kOwner) file.cluster_secret = cluster.secret_key;
  const fs::path path = key_path(folder, file.identity.name);
  TAUT_TRY(write_private_file(path, to_text(file)));
  TAUT_TRY(admit_key(folder, file.identity, file.own.public_key));
  return path;
}

/// REQUIRES: the folder's lock.
Result<void> fill(const fs::path& folder) {
  TAUT_TRY(make_private_folder(admitted_path(folder)));
  KeyFile cluster;
  cluster.identity = {kCluster, KeyRole::kServer};
  cluster.own = make_key_pair();
  TAUT_TRY(make_key(folder, {kOwner, KeyRole::kOwner}, cluster.own));
  // Written last: a folder that has it is complete.
  return write_private_file(key_path(folder, kCluster), to_text(cluster));
}

Result<void> require_name(const std::string& name) {
  if (!is_key_name(name)) {
    return invalid(fmt::format(
        "\"{}\" cannot be a key's name: give up to 128 letters, digits, '.', '_' and '-', the "
        "first a letter or a digit",
        name));
  }
  if (name != kCluster && name != kOwner) return ok();
  return invalid(
      fmt::format("\"{}\" is the name of a key that every folder has; give another", name));
}

/// The error of a missing folder or key, with the remedy.
Error missing(const Error& error, const std::string& remedy) {
  if (error.code != ErrorCode::kNotFound) return error;
  return make_error(ErrorCode::kNotFound, fmt::format("{}; {}", error.message, remedy));
}

Result<void> check_folder(const fs::path& folder) {
  if (auto is_private = check_private_folder(folder); !is_private) {
    return missing(
        is_private.error(),
        fmt::format("make a cluster's keys with: tautline keys init --keys {}", folder.string()));
  }
  return ok();
}

Security security_of(const KeyFile& file) {
  Security security;
  security.own = file.own;
  security.cluster_key = file.cluster_key;
  security.cluster_secret = file.cluster_secret;
  return security;
}

Result<Security> load(const fs::path& path, const KeyFile& file) {
  if (file.own.secret_key.empty() || file.cluster_key.empty()) {
    return invalid(fmt::format("{}: has no secret, or not its cluster's key", path.string()));
  }
  return security_of(file);
}

}  // namespace

Result<void> init_keys(const fs::path& folder) {
  TAUT_TRY(make_private_folder(folder));
  TAUT_TRY(const FolderLock lock, FolderLock::take(folder));
  if (has_keys(folder)) {
    return make_error(ErrorCode::kExists,
                      fmt::format("{}: has keys already; list them with tautline keys list, or "
                                  "name another folder with --keys",
                                  folder.string()));
  }
  return fill(folder);
}

Result<void> admit_key(const fs::path& folder, const Identity& identity,
                       const std::string& public_key) {
  KeyFile file;
  file.identity = identity;
  file.own.public_key = public_key;
  return write_private_file(admitted_path(folder) / identity.name, to_text(file));
}

Result<fs::path> add_key(const fs::path& folder, const std::string& name, KeyRole role) {
  TAUT_TRY(require_name(name));
  TAUT_TRY(check_folder(folder));
  TAUT_TRY(const FolderLock lock, FolderLock::take(folder));
  auto cluster = read_key(key_path(folder, kCluster));
  if (!cluster) {
    return missing(cluster.error(),
                   fmt::format("keys are made in the folder of tautline keys init"));
  }
  std::error_code none;
  if (fs::exists(admitted_path(folder) / name, none) || fs::exists(key_path(folder, name), none)) {
    return make_error(
        ErrorCode::kExists,
        fmt::format("{}: has a key \"{}\" already; replace it with: tautline keys revoke {} and "
                    "then add",
                    folder.string(), name, name));
  }
  return make_key(folder, {name, role}, cluster.value().own);
}

Result<void> revoke_key(const fs::path& folder, const std::string& name) {
  if (name == kOwner) {
    return invalid(
        "\"owner\" is the key of the user who made this folder and is not revoked: make a new "
        "cluster's "
        "keys with tautline keys init in another folder");
  }
  TAUT_TRY(require_name(name));
  TAUT_TRY(check_folder(folder));
  TAUT_TRY(const FolderLock lock, FolderLock::take(folder));
  std::error_code failed;
  const bool was_admitted = fs::remove(admitted_path(folder) / name, failed);
  const bool had_file = !failed && fs::remove(key_path(folder, name), failed);
  if (failed) {
    return make_error(ErrorCode::kIo, fmt::format("{}: \"{}\" cannot be removed: {}",
                                                  folder.string(), name, failed.message()));
  }
  if (was_admitted || had_file) return ok();
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: has no key \"{}\"; tautline keys list shows the keys",
                                folder.string(), name));
}

Result<std::vector<AdmittedKey>> list_keys(const fs::path& folder) {
  TAUT_TRY(check_folder(folder));
  TAUT_TRY(check_private_folder(admitted_path(folder)));
  std::vector<AdmittedKey> keys;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(admitted_path(folder), failed)) {
    if (!is_key_name(entry.path().filename().string())) continue;
    TAUT_TRY(const KeyFile file, read_key(entry.path()));
    keys.push_back({file.identity, file.own.public_key});
  }
  std::ranges::sort(keys, {}, [](const AdmittedKey& key) { return key.identity.name; });
  return keys;
}

Result<fs::path> own_key_folder() {
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return fs::path(config) / "tautline" / "keys";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return fs::path(home) / ".config" / "tautline" / "keys";
  return make_error(
      ErrorCode::kNotFound,
      "neither XDG_CONFIG_HOME nor HOME is set, so the user's own keys have no place: "
      "name a folder with keys: in the cluster file (commands: --keys)");
}

Result<fs::path> ensure_own_keys() {
  TAUT_TRY(fs::path folder, own_key_folder());
  TAUT_TRY(make_private_folder(folder));
  std::error_code none;
  if (fs::exists(key_path(folder, kCluster), none)) return folder;
  TAUT_TRY(const FolderLock lock, FolderLock::take(folder));
  if (!has_keys(folder) || fs::exists(key_path(folder, kOwner), none)) {
    // Another process may have just made the keys; or a first attempt was interrupted.
    if (!fs::exists(key_path(folder, kCluster), none)) {
      TAUT_TRY(fill(folder));
    }
  }
  return folder;
}

Result<Security> daemon_security(const fs::path& folder, const std::string& name, KeyRole role) {
  TAUT_TRY(check_folder(folder));
  const std::string_view role_text = role_name(role);
  fs::path path = key_path(folder, is_key_name(name) ? name : kOwner);
  auto file = read_key(path);
  if (!file && file.error().code == ErrorCode::kNotFound) {
    const fs::path named = std::exchange(path, key_path(folder, kOwner));
    file = read_key(path);
    if (!file) {
      return missing(
          file.error(),
          fmt::format("{} \"{}\" has no key: run \"tautline keys add {} --role {}\" where "
                      "the cluster's keys are, and copy {} here",
                      role_text, name, name, role_text, named.string()));
    }
  }
  if (!file) return file.error();
  const Identity& identity = file.value().identity;
  if (identity.role != role && identity.role != KeyRole::kOwner) {
    return invalid(fmt::format("{}: has the role {}; a {}'s key must have the role {}",
                               path.string(), role_name(identity.role), role_text, role_text));
  }
  TAUT_TRY(Security security, load(path, file.value()));
  if (role != KeyRole::kServer) {
    security.cluster_secret.clear();
    return security;
  }
  TAUT_TRY(security.admission, FolderAdmission::open(admitted_path(folder)));
  return security;
}

Result<Security> user_security(const fs::path& folder) {
  TAUT_TRY(check_folder(folder));
  const fs::path owner = key_path(folder, kOwner);
  std::error_code none;
  if (fs::exists(owner, none)) {
    TAUT_TRY(KeyFile file, read_key(owner));
    file.cluster_secret.clear();
    return load(owner, file);
  }
  std::vector<std::pair<fs::path, KeyFile>> found;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() != ".key") continue;
    TAUT_TRY(KeyFile file, read_key(entry.path()));
    const KeyRole role = file.identity.role;
    if (role == KeyRole::kView || role == KeyRole::kSubmit) {
      found.emplace_back(entry.path(), std::move(file));
    }
  }
  if (found.size() == 1) return load(found[0].first, found[0].second);
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("{}: has {} keys of the roles submit and view, and a command needs one: run "
                  "\"tautline keys add NAME --role submit\" where the cluster's keys are, and copy "
                  "NAME.key there, or name another folder with --keys",
                  folder.string(), found.empty() ? "no" : "several"));
}

}  // namespace taut
