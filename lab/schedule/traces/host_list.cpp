#include "lab/schedule/traces/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/files/file.hpp"
#include "lab/schedule/traces/trace_table.hpp"

namespace taut::schedule {
namespace {

constexpr std::pair<std::string_view, DeviceType> kModelsOfNodes[] = {
    {"V100", DeviceType::kV100}, {"V100M16", DeviceType::kV100}, {"V100M32", DeviceType::kV100},
    {"P100", DeviceType::kP100}, {"K80", DeviceType::kK80},      {"T4", DeviceType::kT4},
    {"A10", DeviceType::kV100},  {"G1", DeviceType::kV100},      {"G2", DeviceType::kV100},
    {"G3", DeviceType::kV100},
};

std::optional<DeviceType> type_of_node(std::string_view model) {
  const auto found =
      std::ranges::find(kModelsOfNodes, model, &std::pair<std::string_view, DeviceType>::first);
  if (found == std::end(kModelsOfNodes)) return std::nullopt;
  return found->second;
}

}  // namespace

Result<Cluster> parse_nodes(const std::string& text, const std::string& name,
                            std::uint32_t rack_hosts) {
  constexpr std::uint32_t kMaxOfNode = 64;
  TAUT_TRY(const TraceTable table, TraceTable::parse(text, name, "node"));
  if (!table.has({"sn", "cpu_milli", "memory_mib", "gpu", "model"})) {
    return invalid(
        fmt::format("{}:1:1: the columns must be sn,cpu_milli,memory_mib,gpu,model, are \"{}\"",
                    name, text.substr(0, std::min<std::size_t>(text.find_first_of("\r\n"), 80))));
  }
  Cluster cluster;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    TAUT_TRY(const std::uint32_t devices, table.whole(row, "gpu", 0, kMaxOfNode));
    if (devices == 0) continue;
    const auto type = type_of_node(table.text(row, "model"));
    if (!type) {
      return table.wrong(row, "model", "V100, V100M16, V100M32, P100, K80, T4, A10, G1, G2 or G3");
    }
    if (cluster.devices() + devices > kMaxDevices) {
      return table.wrong(row, "gpu",
                         fmt::format("such that a cluster has at most {} devices", kMaxDevices));
    }
    cluster.add_hosts(1, devices, *type, rack_hosts);
  }
  if (cluster.hosts.empty()) {
    return invalid(fmt::format("{}: at least one node must have a device, none does", name));
  }
  return cluster;
}

Result<Cluster> read_nodes(const std::filesystem::path& path, std::uint32_t rack_hosts) {
  TAUT_TRY(const std::string text, read_file_gz(path));
  return parse_nodes(text, path.string(), rack_hosts);
}

}  // namespace taut::schedule
