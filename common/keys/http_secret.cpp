#include "common/keys/http_secret.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/files/sha256.hpp"
#include "common/keys/key_file.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBytes = 32;

Result<std::string> read_secret(const fs::path& path) {
  TAUT_TRY(std::string text, read_private_file(path));
  if (text.ends_with('\n')) text.pop_back();
  if (text.size() == 2 * kBytes) return text;
  return invalid(fmt::format("{}: must have {} characters, has {}; remove it, and it is made again",
                             path.string(), 2 * kBytes, text.size()));
}

}  // namespace

Result<std::string> ensure_http_secret(const fs::path& folder) {
  const fs::path path = folder / kHttpSecretFile;
  if (auto found = read_secret(path); found || found.error().code != ErrorCode::kNotFound) {
    return found;
  }
  const fs::path draft = folder / fmt::format(".{}.{}", kHttpSecretFile, random_hex(8));
  TAUT_TRY(write_private_file(draft, random_hex(kBytes) + "\n"));
  // The first process to link its draft wins; the others use that secret.
  const int failed = link(draft.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(draft.c_str());
  if (failed != 0 && failed != EEXIST) {
    return make_error(ErrorCode::kIo, fmt::format("{}: cannot be made: {}", path.string(),
                                                  std::generic_category().message(failed)));
  }
  return read_secret(path);
}

}  // namespace taut
