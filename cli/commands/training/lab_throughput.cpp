#include "cli/commands/training/lab_throughput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/files/file.hpp"
#include "lab/schedule/traces/planned_models.hpp"
#include "lab/training/costs/throughput_plan.hpp"
#include "proto/config/lab/lab_cluster.hpp"

namespace taut::cli {

std::string check_host_type(const std::string& text) {
  const std::size_t equals = text.find('=');
  const bool is_fine = equals != std::string::npos && equals > 0 &&
                       schedule::find_device_type(text.substr(equals + 1));
  return is_fine ? "" : "must be HOST=TYPE with the type V100, P100, K80 or T4, e.g. node=V100";
}

Result<HostTypes> host_types(const std::vector<std::string>& given, const pb::LabCluster& cluster,
                             const std::string& cluster_file) {
  HostTypes named;
  for (const std::string& one : given) {
    const std::size_t equals = one.find('=');
    const std::string name = one.substr(0, equals);
    const auto type = *schedule::find_device_type(one.substr(equals + 1));
    if (!named.emplace(name, type).second) {
      return invalid(fmt::format("--host-type: host \"{}\" is given twice", name));
    }
  }
  HostTypes types;
  for (int i = 0; i < cluster.host_size(); ++i) {
    const std::string& name = cluster.host(i).name();
    if (cluster.host(i).workers() == 0) continue;
    if (const auto found = named.extract(name)) {
      types[name] = found.mapped();
    } else if (const auto type = schedule::find_device_type(name)) {
      types[name] = *type;
    } else {
      return lab_cluster_error(
          cluster_file, {{"host", i}, {"name"}},
          fmt::format("host \"{0}\": for --throughput its name must be V100, P100, K80 or T4, or "
                      "add --host-type {0}=V100",
                      name));
    }
  }
  if (named.empty()) return types;
  return invalid(fmt::format("--host-type: {} has no host \"{}\" with places for workers",
                             cluster_file, named.begin()->first));
}

Result<std::size_t> write_throughput(const lab::ScalingOptions& options, const HostTypes& types,
                                     const std::string& file) {
  TAUT_TRY(const lab::ThroughputPlan plan, lab::plan_throughput(options));
  // If several kinds have the same type, the file contains the first one's rates.
  std::vector<schedule::PlannedRate> rates;
  for (const lab::KindRate& one : plan.rates) {
    const schedule::PlannedRate rate{.type = types.at(one.kind),
                                     .across = one.across,
                                     .workers = one.workers,
                                     .iterations_per_s = one.iterations_per_s};
    const bool is_known = std::ranges::any_of(rates, [&rate](const schedule::PlannedRate& other) {
      return other.type == rate.type && other.across == rate.across &&
             other.workers == rate.workers;
    });
    if (!is_known) rates.push_back(rate);
  }
  for (const auto& [kind, type] : types) {
    const bool has_host = std::ranges::any_of(
        rates, [type = type](const auto& rate) { return rate.type == type && !rate.across; });
    if (has_host) continue;
    return invalid(fmt::format(
        "--throughput: no number of --workers fits on one host \"{}\"; add 1 to them", kind));
  }
  const std::string& name = plan.net.empty() ? options.job.name() : plan.net;
  TAUT_TRY(write_file_atomically(file, schedule::planned_csv(name, rates)));
  return rates.size();
}

}  // namespace taut::cli
