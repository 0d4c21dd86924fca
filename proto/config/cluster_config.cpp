#include "proto/config/cluster_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "common/files/allowed_folders.hpp"
#include "common/files/file.hpp"
#include "proto/config/experiment_check.hpp"
#include "proto/config/text_places.hpp"
#include "proto/session/coordinator_addresses.hpp"

namespace taut {
namespace {

constexpr std::uint32_t kMaxIoThreads = 64;
constexpr Bytes kMaxText{16ULL << 20U};

Result<void> check_range(const std::string& file, const char* field, double value, double low,
                         double high) {
  if (value >= low && value <= high) return ok();
  return invalid(
      fmt::format("{}: {} is {}; it must be between {} and {}", file, field, value, low, high));
}

bool is_loopback(const std::string& host) {
  // "127.example.org" is a name, not an address.
  const bool is_ipv4 = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "::1" || host == "[::1]" ||
         (is_ipv4 && host.starts_with("127."));
}

std::string host_of(const std::string& address) {
  const bool bare =
      address.starts_with('[') ? address.ends_with(']') : address.find(':') != address.rfind(':');
  const auto colon = address.rfind(':');
  return bare || colon == std::string::npos ? address : address.substr(0, colon);
}

/// Errors    invalid: names the field
Result<void> check_address(const std::string& file, const char* field, const std::string& address) {
  if (is_address(address)) return ok();
  return invalid(fmt::format("{}: {} \"{}\" is not \"host:port\"", file, field, address));
}

/// Checks where the coordinators are, and the settings of the one in this process, if any.
Result<void> check_coordinators(const std::string& file, const pb::ClusterConfig& config) {
  const auto addresses = listed_addresses(config.coordinator_address());
  for (const std::string& address : addresses) {
    TAUT_TRY(check_address(file, "coordinator_address", address));
  }
  const pb::CoordinatorConfig& own = config.server().coordinator();
  for (const std::string& member : own.etcd()) {
    TAUT_TRY(check_address(file, "server.coordinator.etcd", member));
  }
  TAUT_TRY(check_range(file, "server.coordinator.lease_s", own.lease_s(), 1, 3600));
  if (!config.server().has_coordinator()) return ok();
  if (own.has_address()) {
    TAUT_TRY(check_address(file, "server.coordinator.address", own.address()));
  }
  if (addresses.size() == 1) return ok();
  if (std::ranges::find(addresses, own.address()) == addresses.end()) {
    return invalid(
        fmt::format("{}: server.coordinator.address is \"{}\"; it must be one of {}, "
                    "which coordinator_address lists",
                    file, own.address(), config.coordinator_address()));
  }
  if (own.etcd().empty()) {
    return invalid(
        fmt::format("{}: coordinator_address lists {} coordinators, which need a store "
                    "in common: name its members with server.coordinator.etcd",
                    file, addresses.size()));
  }
  return ok();
}

/// Errors    invalid: at the field's place
Result<void> check_security(const PlacedText& text, const pb::ClusterConfig& config) {
  if (config.data_security() == pb::ClusterConfig::TOKEN && config.insecure()) {
    return text.error(
        {{"data_security"}},
        "data_security: TOKEN uses secrets, but insecure: true turns keys off; remove "
        "one of the two");
  }
  const bool is_plain = config.data_security() == pb::ClusterConfig::TOKEN;
  if (config.server().transport() == pb::ServerConfig::UCX && !is_plain) {
    return text.error({{"server"}, {"transport"}},
                      "transport: UCX does not encrypt, so it requires data_security: "
                      "TOKEN, in a trusted network; set that for every daemon of the cluster, or "
                      "remove transport: UCX");
  }
  if (config.io_threads() <= kMaxIoThreads) return ok();
  return text.error({{"io_threads"}}, fmt::format("io_threads must be from 0 to {}, is {}",
                                                  kMaxIoThreads, config.io_threads()));
}

/// Errors    invalid: a quota that limits nothing, or two for one user
Result<void> check_quotas(const std::string& file, const pb::SchedulingConfig& scheduling) {
  constexpr const char* kField = "server.coordinator.scheduling.quota";
  std::set<std::string> users;
  for (const pb::Quota& quota : scheduling.quota()) {
    const std::string whose =
        quota.has_user() ? fmt::format("of user \"{}\"", quota.user()) : "of each other user";
    if (quota.workers() == 0 && quota.jobs() == 0) {
      return invalid(fmt::format("{}: {} {} limits nothing; give workers, jobs or both, at least 1",
                                 file, kField, whose));
    }
    // The one without a user has the empty key, which no user has.
    if (!users.insert(quota.has_user() ? "user " + quota.user() : "").second) {
      return invalid(fmt::format("{}: {} {} occurs twice; remove one", file, kField, whose));
    }
  }
  return ok();
}

Result<void> check_server(const std::string& file, const pb::ClusterConfig& config) {
  const pb::ServerConfig& server = config.server();
  TAUT_TRY(check_range(file, "server.shards", server.shards(), 0, 256));
  if (config.has_server() && server.shards() == 0 && !server.has_coordinator()) {
    return invalid(fmt::format(
        "{}: server.shards is 0 in a server without coordinator {{ }}: it would do nothing; set "
        "shards to at least 1, or host the coordinator here",
        file));
  }
  TAUT_TRY(check_range(file, "server.port_base", server.port_base(), 0, 65535));
  if (server.port_base() + server.shards() > 65536) {
    return invalid(fmt::format("{}: server.port_base {} leaves no ports for {} shards", file,
                               server.port_base(), server.shards()));
  }
  return ok();
}

Result<void> check_worker(const std::string& file, const pb::WorkerConfig& worker) {
  TAUT_TRY(check_range(file, "worker.threads", worker.threads(), 1, 1024));
  TAUT_TRY(check_range(file, "worker.slowdown_ms", worker.slowdown_ms(), 0, 3.6e6));
  TAUT_TRY(check_experiment(worker, file + ": worker."));
  if (!worker.rank_listen().empty()) {
    TAUT_TRY(check_address(file, "worker.rank_listen", worker.rank_listen()));
  }
  for (const std::uint32_t index : worker.device_index()) {
    TAUT_TRY(check_range(file, "worker.device_index", index, 0, 1023));
  }
  if (worker.device_index_size() <= 1) return ok();
  TAUT_TRY(check_range(file, "worker.device_index: the number of devices",
                       worker.device_index_size(), 1, 64));
  if (worker.device_memory_budget() > 0) {
    return invalid(
        fmt::format("{}: worker.device_memory_budget with {} devices in worker.device_index: a "
                    "budget is kept on one device; start a worker for each",
                    file, worker.device_index_size()));
  }
  return ok();
}

Result<void> check_coordinator(const std::string& file, const pb::CoordinatorConfig& coordinator) {
  TAUT_TRY(check_range(file, "server.coordinator.heartbeat_limit_s",
                       coordinator.heartbeat_limit_s(), 0.1, 86400));
  TAUT_TRY(check_range(file, "server.coordinator.replication.interval",
                       coordinator.replication().interval(), 0, 1000));
  TAUT_TRY(check_range(file, "server.coordinator.replication.limit_s",
                       coordinator.replication().limit_s(), 1, 3600));
  TAUT_TRY(check_range(file, "server.coordinator.replication.copies",
                       coordinator.replication().copies(), 1, 7));
  TAUT_TRY(check_quotas(file, coordinator.scheduling()));
  return check_range(file, "server.coordinator.worker_wait_s", coordinator.worker_wait_s(), 0,
                     604800);
}

/// Checks that if one heartbeat is lost, the next one still arrives within the limit.
Result<void> check_heartbeats(const PlacedText& placed, const pb::ClusterConfig& config) {
  const double interval_s = config.heartbeat_interval_s();
  const double limit_s = config.server().coordinator().heartbeat_limit_s();
  if (interval_s * 2 < limit_s) return ok();
  using Steps = std::vector<PlacedText::Step>;
  return placed.error(
      config.has_heartbeat_interval_s() ? Steps{{"heartbeat_interval_s"}}
                                        : Steps{{"server"}, {"coordinator"}, {"heartbeat_limit_s"}},
      fmt::format("heartbeat_interval_s is {}; it must be less than half of heartbeat_limit_s, "
                  "which is {}, or a live daemon of which one report gets lost is declared lost: "
                  "set heartbeat_interval_s below {} or heartbeat_limit_s above {}",
                  interval_s, limit_s, limit_s / 2, interval_s * 2));
}

}  // namespace

bool is_address(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string port = address.substr(colon + 1);
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == std::string::npos;
  return is_number && std::stoi(port) <= 65535;
}

Result<pb::ClusterConfig> load_cluster_config(const std::filesystem::path& path) {
  pb::ClusterConfig config;
  const std::string file = path.string();
  TAUT_TRY(const std::string text, read_file(path, kMaxText));
  PlacedText placed;
  TAUT_TRY(placed.read(text, file, config));
  TAUT_TRY(check_security(placed, config));
  if (const auto known = log::check_level(config.log().level()); !known) {
    return placed.error({{"log"}, {"level"}}, known.error().message);
  }
  TAUT_TRY(check_coordinators(file, config));
  TAUT_TRY(check_address(file, "http.dashboard", config.http().dashboard()));
  TAUT_TRY(check_address(file, "http.metrics", config.http().metrics()));
  TAUT_TRY(check_server(file, config));
  TAUT_TRY(check_worker(file, config.worker()));
  TAUT_TRY(check_range(file, "start_wait_s", config.start_wait_s(), 0.1, 86400));
  TAUT_TRY(check_range(file, "heartbeat_interval_s", config.heartbeat_interval_s(), 0.01, 3600));
  TAUT_TRY(check_coordinator(file, config.server().coordinator()));
  TAUT_TRY(check_range(file, "preemption_notice_s", config.preemption_notice_s(), 0, 86400));
  TAUT_TRY(check_range(file, "records.every", config.records().every(), 1, 1e6));
  TAUT_TRY(check_range(file, "records.timeline_limit_mib", config.records().timeline_limit_mib(), 1,
                       65536));
  TAUT_TRY(check_heartbeats(placed, config));
  return config;
}

Result<void> limit_files(const pb::ClusterConfig& config, const std::string& ready_file) {
  if (config.allowed_folders().empty()) return ok();
  std::vector<std::filesystem::path> folders;
  for (const std::string& folder : config.allowed_folders()) {
    std::error_code failed;
    if (!std::filesystem::path(folder).is_absolute() ||
        !std::filesystem::is_directory(folder, failed)) {
      return invalid(fmt::format(
          "allowed_folders: \"{}\" must be the absolute path of a folder that exists", folder));
    }
    folders.emplace_back(folder);
  }
  if (!config.records().folder().empty()) folders.emplace_back(config.records().folder());
  const std::string& runs = config.server().coordinator().run_folder();
  if (config.server().has_coordinator() && !runs.empty()) folders.emplace_back(runs);
  const std::string& parts = config.server().part_folder();
  if (!parts.empty()) folders.emplace_back(parts);
  std::vector<std::filesystem::path> files;
  if (!ready_file.empty()) files.emplace_back(ready_file);
  limit_files_to(folders, files);
  return ok();
}

Result<void> check_http_address(const std::string& address, const pb::ClusterConfig& config) {
  if (is_loopback(host_of(address)) || config.insecure() || config.http().insecure()) return ok();
  return invalid(fmt::format(
      "{} is not a loopback address, and HTTP is not encrypted: reach it with ssh -L or through a "
      "proxy that speaks TLS, or set http {{ insecure: true }} to serve it there anyway",
      address));
}

std::vector<NamedAddress> http_addresses(const pb::ClusterConfig& config) {
  std::vector<NamedAddress> addresses;
  if (!config.has_http()) return addresses;
  const bool hosts_coordinator = config.server().has_coordinator();
  if (hosts_coordinator) addresses.push_back({"http.dashboard", config.http().dashboard()});
  if (!hosts_coordinator || config.has_worker()) {
    addresses.push_back({"http.metrics", config.http().metrics()});
  }
  return addresses;
}

std::string join_address(const std::string& host, std::uint32_t port) {
  const bool ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
}

log::Options log_options(const pb::ClusterConfig& config, const std::string& role,
                         const std::string& name) {
  log::Options options;
  options.role = role;
  options.name = name;
  options.format =
      config.log().format() == pb::LogConfig::JSON ? log::Format::kJson : log::Format::kText;
  options.level = config.log().level();
  options.file = config.log().file();
  return options;
}

}  // namespace taut
