#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/log.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"

namespace taut {

/// Reads a daemon's config file and checks every number in it.
/// Errors    not_found; invalid: with line and column, or the field, its value and its range
[[nodiscard]] Result<pb::ClusterConfig> load_cluster_config(const std::filesystem::path& path);

/// Whether it is "host:port" with a valid port.
[[nodiscard]] bool is_address(const std::string& address);

/// Refuses an address at which other machines could reach HTTP, which is not encrypted.
/// address   "host:port" or "host"
/// Errors    invalid: not loopback, and neither `http { insecure: true }` nor `insecure: true`
[[nodiscard]] Result<void> check_http_address(const std::string& address,
                                              const pb::ClusterConfig& config);

/// An address that a field of the file names.
struct NamedAddress {
  const char* field = "";
  std::string address;
};
/// Where daemons with this file serve HTTP: nowhere, or the dashboard at the coordinator and
/// metrics elsewhere.
[[nodiscard]] std::vector<NamedAddress> http_addresses(const pb::ClusterConfig& config);

/// Lets the process open the configuration's allowed_folders and its own files: its records, the
/// runs that a coordinator keeps, a server's part_folder, and the file that shows that it is ready.
/// Its log, keys and state are opened otherwise, and not for jobs. Call it before other threads
/// open files.
/// Errors    invalid: an allowed folder that is not an absolute path, or does not exist
[[nodiscard]] Result<void> limit_files(const pb::ClusterConfig& config,
                                       const std::string& ready_file);

/// "host:port" of the two. Brackets an IPv6 host.
[[nodiscard]] std::string join_address(const std::string& host, std::uint32_t port);

/// The log's options of a configuration.
[[nodiscard]] log::Options log_options(const pb::ClusterConfig& config, const std::string& role,
                                       const std::string& name);

}  // namespace taut
