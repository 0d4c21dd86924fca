#include "common/keys/key_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <system_error>
#include <utility>

#include "common/check.hpp"
#include "common/files/descriptor.hpp"
#include "common/files/sha256.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxFileBytes = 4096;
constexpr std::size_t kMaxNameBytes = 128;
constexpr mode_t kOthers = 077;
constexpr std::size_t kDrawnBytes = 8;

constexpr std::array<std::pair<KeyRole, std::string_view>, 5> kRoles = {{
    {KeyRole::kView, "view"},
    {KeyRole::kSubmit, "submit"},
    {KeyRole::kWorker, "worker"},
    {KeyRole::kServer, "server"},
    {KeyRole::kOwner, "owner"},
}};

Error failed(const fs::path& path, const char* step) {
  const int reason = errno;
  return make_error(reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                    fmt::format("{}: cannot {}: {}", path.string(), step,
                                std::generic_category().message(reason)));
}

Result<void> check_private(const fs::path& path, const struct stat& found, mode_t mode) {
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return invalid(fmt::format(
        "{}: belongs to user {}, who could admit any key; keys must belong to user {}, who runs "
        "this: name a folder of that user's with keys: or --keys",
        path.string(), found.st_uid, geteuid()));
  }
  if ((found.st_mode & kOthers) == 0) return ok();
  return invalid(fmt::format("{}: other users may use it (mode {:04o}); run: chmod {:o} {}",
                             path.string(), found.st_mode & 07777U, mode, path.string()));
}

Result<void> set_field(std::string_view name, std::string_view value, KeyFile& file) {
  if (name == "name") {
    if (!is_key_name(value)) return invalid(fmt::format("\"{}\" is not the name of a key", value));
    file.identity.name = value;
    return ok();
  }
  if (name == "role") {
    TAUT_TRY(file.identity.role, role_of(value));
    return ok();
  }
  std::string* const key = name == "public"           ? &file.own.public_key
                           : name == "secret"         ? &file.own.secret_key
                           : name == "cluster"        ? &file.cluster_key
                           : name == "cluster_secret" ? &file.cluster_secret
                                                      : nullptr;
  if (key == nullptr) return invalid(fmt::format("\"{}\" is not a field of a key file", name));
  // The value is not repeated: it may be a secret.
  if (!is_key(value)) return invalid(fmt::format("{} must be a key of 40 characters", name));
  *key = value;
  return ok();
}

}  // namespace

std::string_view role_name(KeyRole role) {
  const auto* const found =
      std::ranges::find(kRoles, role, &std::pair<KeyRole, std::string_view>::first);
  TAUT_CHECK(found != kRoles.end(), "a role without a name");
  return found->second;
}

Result<KeyRole> role_of(std::string_view name) {
  for (const auto& [role, text] : kRoles) {
    if (text == name) return role;
  }
  return invalid(
      fmt::format("\"{}\" is not a role; the roles are worker, server, submit and view", name));
}

bool is_key_name(std::string_view name) {
  const auto is_plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '.' || letter == '_' || letter == '-';
  };
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::isalnum(static_cast<unsigned char>(name.front())) != 0 &&
         std::ranges::all_of(name, is_plain);
}

std::string to_text(const KeyFile& file) {
  std::string text;
  if (!file.own.secret_key.empty()) {
    text = fmt::format("# A key of Tautline's. Who can read this file can act as \"{}\".\n",
                       file.identity.name);
  }
  text += fmt::format("name: {}\nrole: {}\npublic: {}\n", file.identity.name,
                      role_name(file.identity.role), file.own.public_key);
  if (!file.own.secret_key.empty()) text += fmt::format("secret: {}\n", file.own.secret_key);
  if (!file.cluster_key.empty()) text += fmt::format("cluster: {}\n", file.cluster_key);
  if (!file.cluster_secret.empty()) {
    text += fmt::format("cluster_secret: {}\n", file.cluster_secret);
  }
  return text;
}

Result<KeyFile> parse_key_file(std::string_view text, const std::string& path) {
  KeyFile file;
  for (int line = 1; !text.empty(); ++line) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty() || one.front() == '#') continue;
    const auto colon = one.find(": ");
    if (colon == std::string_view::npos) {
      return invalid(fmt::format("{}:{}: must be \"field: value\"", path, line));
    }
    if (auto set = set_field(one.substr(0, colon), one.substr(colon + 2), file); !set) {
      return invalid(fmt::format("{}:{}: {}", path, line, set.error().message));
    }
  }
  if (file.identity.name.empty() || file.own.public_key.empty()) {
    return invalid(fmt::format("{}: must have a name and a public key", path));
  }
  return file;
}

Result<std::string> read_private_file(const fs::path& path) {
  // Non-blocking: a pipe of that name would block.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return failed(path, "be opened");
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return failed(path, "be looked at");
  if (!S_ISREG(found.st_mode)) {
    return invalid(fmt::format("{}: is not a regular file", path.string()));
  }
  TAUT_TRY(check_private(path, found, 0600));
  std::string text(kMaxFileBytes + 1, '\0');
  const ssize_t size = read(file.get(), text.data(), text.size());
  if (size < 0) return failed(path, "be read");
  if (static_cast<std::size_t>(size) > kMaxFileBytes) {
    return invalid(fmt::format("{}: larger than {} bytes, so it is not a key file", path.string(),
                               kMaxFileBytes));
  }
  text.resize(static_cast<std::size_t>(size));
  return text;
}

Result<void> write_private_file(const fs::path& path, std::string_view text) {
  // Random: processes of other machines and containers, which may have the same id, also write
  // here.
  const std::string partial =
      fmt::format("{}/.part-{}", path.parent_path().string(), random_hex(kDrawnBytes));
  Descriptor file(open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) return failed(path, "be created");
  const bool is_written =
      write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fsync(file.get()) == 0;
  if (!is_written || !file.close() || rename(partial.c_str(), path.c_str()) != 0) {
    Error error = failed(path, "be written");
    unlink(partial.c_str());
    return error;
  }
  return ok();
}

Result<void> check_private_folder(const fs::path& folder) {
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0) return failed(folder, "be used");
  if (!S_ISDIR(found.st_mode)) return invalid(fmt::format("{}: is not a folder", folder.string()));
  return check_private(folder, found, 0700);
}

}  // namespace taut
