#include "worker/library/library_keys.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "common/keys/key_folder.hpp"
#include "common/log.hpp"
#include "common/system/host_name.hpp"

namespace taut::library {
namespace {

/// The folder of the keys; empty if there are none.
Result<std::filesystem::path> folder_of(const char* keys) {
  if (keys != nullptr) return std::filesystem::path(keys);
  const char* const named = std::getenv("TAUTLINE_KEYS");
  if (named != nullptr && *named != '\0') return std::filesystem::path(named);
  return own_key_folder();
}

}  // namespace

void prepare_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    log::Options options;
    options.role = "member";
    const char* const level = std::getenv("TAUTLINE_LOG");
    options.level = level == nullptr ? "warn" : level;
    if (log::start(options)) return;
    options.level = "warn";
    (void)log::start(options);
  });
}

std::string default_name() {
  static std::atomic<unsigned> next = 0;
  return fmt::format("{}-{}-{}", host_name(), getpid(), next++);
}

Result<Security> user_keys(const char* keys) {
  TAUT_TRY(const auto folder, folder_of(keys));
  if (folder.empty()) return Security::insecure();
  return user_security(folder);
}

Result<Security> member_keys(const char* keys, const std::string& name) {
  TAUT_TRY(const auto folder, folder_of(keys));
  if (folder.empty()) return Security::insecure();
  return daemon_security(folder, name, KeyRole::kWorker);
}

Result<Security> relay_keys(const char* keys, const std::string& name) {
  TAUT_TRY(const auto folder, folder_of(keys));
  if (folder.empty()) return Security::insecure();
  auto security = daemon_security(folder, name, KeyRole::kServer);
  if (security) return security;
  return make_error(security.error().code,
                    fmt::format("a follower that passes models on listens, as servers do: {}",
                                security.error().message));
}

}  // namespace taut::library
