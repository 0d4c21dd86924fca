#include "proto/config/cluster_security.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "common/keys/http_secret.hpp"
#include "common/keys/key_folder.hpp"

namespace taut {
namespace {

// More connections than this encrypt at once only if there are many workers.
constexpr unsigned kMaxDerived = 4;

Result<std::filesystem::path> folder_of(const pb::ClusterConfig& config) {
  if (!config.keys().empty()) return std::filesystem::path(config.keys());
  return ensure_own_keys();
}

}  // namespace

Result<Security> daemon_security(const pb::ClusterConfig& config, const std::string& name,
                                 KeyRole role) {
  if (config.insecure()) return Security::insecure();
  TAUT_TRY(const auto folder, folder_of(config));
  TAUT_TRY(Security security, daemon_security(folder, name, role));
  security.plain_data = config.data_security() == pb::ClusterConfig::TOKEN;
  return security;
}

pb::DataSecurity data_security(const pb::ClusterConfig& config) {
  if (config.insecure()) return pb::DATA_SECURITY_NONE;
  return config.data_security() == pb::ClusterConfig::TOKEN ? pb::DATA_SECURITY_TOKEN
                                                            : pb::DATA_SECURITY_CURVE;
}

int io_threads(const pb::ClusterConfig& config) {
  if (config.io_threads() > 0) return static_cast<int>(config.io_threads());
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 1U, kMaxDerived));
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
