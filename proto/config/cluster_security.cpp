#include "proto/config/cluster_security.hpp"

#include <filesystem>

#include "common/keys/http_secret.hpp"
#include "common/keys/key_folder.hpp"

namespace taut {
namespace {

Result<std::filesystem::path> folder_of(const pb::ClusterConfig& config) {
  if (!config.keys().empty()) return std::filesystem::path(config.keys());
  return ensure_own_keys();
}

}  // namespace

Result<Security> daemon_security(const pb::ClusterConfig& config, const std::string& name,
                                 KeyRole role) {
  if (config.insecure()) return Security::insecure();
  TAUT_TRY(const auto folder, folder_of(config));
  return daemon_security(folder, name, role);
}

Result<Security> user_security(const pb::ClusterConfig& config) {
  if (config.insecure()) return Security::insecure();
  TAUT_TRY(const auto folder, folder_of(config));
  return user_security(folder);
}

Result<std::string> http_secret(const pb::ClusterConfig& config) {
  if (config.insecure() || config.http().insecure()) return std::string();
  TAUT_TRY(const auto folder, folder_of(config));
  return ensure_http_secret(folder);
}

}  // namespace taut
