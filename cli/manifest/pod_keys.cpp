#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "cli/manifest/manifest.hpp"
#include "common/files/file.hpp"
#include "common/keys/key_file.hpp"
#include "common/keys/key_folder.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

Result<void> require_key(const fs::path& folder, const std::string& name, KeyRole role) {
  std::error_code none;
  if (fs::exists(folder / (name + ".key"), none)) return ok();
  TAUT_TRY(add_key(folder, name, role));
  return ok();
}

Result<void> add_file(const fs::path& folder, const std::string& name, Files& files) {
  TAUT_TRY(files[name], read_private_file(folder / name));
  return ok();
}

}  // namespace

Result<ManifestKeys> keys_for_pods(const std::string& name, std::uint32_t servers,
                                   std::uint32_t workers) {
  const fs::path folder = name;
  std::error_code none;
  if (!fs::exists(folder / "cluster.key", none)) {
    TAUT_TRY(init_keys(folder));
  }
  ManifestKeys keys;
  const auto add = [&](const std::string& holder, KeyRole role, Files& files) -> Result<void> {
    TAUT_TRY(require_key(folder, holder, role));
    return add_file(folder, holder + ".key", files);
  };
  TAUT_TRY(add("coordinator", KeyRole::kServer, keys.coordinator));
  TAUT_TRY(add("submit", KeyRole::kSubmit, keys.submit));
  for (std::uint32_t i = 0; i < servers; ++i) {
    TAUT_TRY(add(fmt::format("server{}", i), KeyRole::kServer, keys.servers));
  }
  for (std::uint32_t i = 0; i < workers; ++i) {
    TAUT_TRY(add(fmt::format("worker{}", i), KeyRole::kWorker, keys.workers));
  }
  TAUT_TRY(const auto admitted, list_keys(folder));
  for (const AdmittedKey& key : admitted) {
    const std::string file = fmt::format("admitted/{}", key.identity.name);
    TAUT_TRY(add_file(folder, file, keys.coordinator));
    TAUT_TRY(add_file(folder, file, keys.servers));
  }
  return keys;
}

}  // namespace taut::cli
