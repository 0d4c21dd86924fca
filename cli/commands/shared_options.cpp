#include "cli/commands/shared_options.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "proto/cluster.pb.h"
#include "proto/config/cluster_security.hpp"
#include "proto/config/text.hpp"

namespace taut::cli {

int fail(std::string_view command, const std::string& message) {
  std::fflush(stdout);
  fmt::print(stderr, "tautline {}: {}\n", command, message);
  return kFailed;
}

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

void CoordinatorOption::add_to(Command& command) {
  auto by_address = command
                        .text("--coordinator", address,
                              "Where the coordinator listens (default: TAUTLINE_COORDINATOR, else "
                              "127.0.0.1:7600)")
                        .value("HOST:PORT");
  command.text("--config", config_file, "Cluster file that names the coordinator's address")
      .value("CLUSTERFILE")
      .excludes(by_address);
  auto by_keys = command
                     .text("--keys", keys,
                           "The folder of your key (default: TAUTLINE_KEYS, else your own folder)")
                     .value("DIR");
  command
      .flag(
          "--insecure", insecure,
          "Connects to a cluster without keys (insecure: true), trusting any process that answers")
      .excludes(by_keys);
  command
      .number("--wait", wait_s, "How long to wait for an answer", "SECONDS",
              {.excludes_limits = true})
      .by_default(fmt::format("{:g}", wait_s));
}

Result<std::string> CoordinatorOption::resolve() const {
  if (!address.empty()) return address;
  pb::ClusterConfig config;
  if (!config_file.empty()) {
    TAUT_TRY(read_text(config_file, config));
  } else if (std::string named = environment_variable("TAUTLINE_COORDINATOR"); !named.empty()) {
    return named;
  }
  return config.coordinator_address();
}

Result<pb::ClusterConfig> read_cluster(const std::string& config_file, const std::string& keys,
                                       bool insecure) {
  pb::ClusterConfig config;
  if (!config_file.empty()) {
    TAUT_TRY(read_text(config_file, config));
  }
  if (insecure) config.set_insecure(true);
  const std::string named = environment_variable("TAUTLINE_KEYS");
  if (!keys.empty()) {
    config.set_keys(keys);
    config.set_insecure(insecure);
  } else if (!named.empty() && !config.has_keys() && !config.insecure()) {
    config.set_keys(named);
  }
  return config;
}

Result<Security> CoordinatorOption::security() const {
  TAUT_TRY(const pb::ClusterConfig config, read_cluster(config_file, keys, insecure));
  return user_security(config);
}

Result<ControlClient> CoordinatorOption::connect() const {
  TAUT_TRY(const std::string at, resolve());
  TAUT_TRY(const Security proof, security());
  return connect_control(at, wait_s, proof);
}

void DataSecurityOption::add_to(Command& command) {
  command
      .one_of("--data-security", word,
              "Parameters and updates between hosts: curve encrypts them; token sends them "
              "unencrypted, with a secret in each message, for a private network",
              {"curve", "token"})
      .by_default(word);
}

pb::ClusterConfig::DataSecurity DataSecurityOption::value() const {
  return word == "token" ? pb::ClusterConfig::TOKEN : pb::ClusterConfig::CURVE;
}

}  // namespace taut::cli
