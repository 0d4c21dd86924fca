#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "lab/schedule/cluster.hpp"

namespace taut::schedule {

/// How fast a net trains with `workers` workers, all on devices of one type.
struct PlannedRate {
  DeviceType type = DeviceType::kV100;
  bool across = false;  // on several hosts, as few as they fit on; false: on one
  std::uint32_t workers = 1;
  double iterations_per_s = 0;  // of all workers together
};

/// A net's throughput from `tautline lab plan --throughput`, instead of a Model's formula.
class PlannedModel {
 public:
  /// REQUIRES  a rate on one host
  PlannedModel(std::string name, std::span<const PlannedRate> rates);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool has(DeviceType type, bool across) const {
    return !curve(type, across).empty();
  }
  /// The rate of all workers together. It is linear between two known numbers of workers, constant
  /// above the largest and in proportion to the workers below the smallest. For a type without
  /// rates: as best_iterations_per_s().
  [[nodiscard]] double iterations_per_s(DeviceType type, bool across, std::uint32_t workers) const;
  /// As iterations_per_s(), for the fastest type with rates there; across hosts, if no type has
  /// any, as on one host.
  [[nodiscard]] double best_iterations_per_s(bool across, std::uint32_t workers) const;

 private:
  using Curve = std::vector<std::pair<double, double>>;  // workers, ascending, and their rate
  [[nodiscard]] static double rate_at(const Curve& points, std::uint32_t workers);
  [[nodiscard]] const Curve& curve(DeviceType type, bool across) const {
    return curves_[static_cast<std::size_t>(type)][across ? 1 : 0];
  }

  std::string name_;
  std::array<std::array<Curve, 2>, kDeviceTypes> curves_;
};

using PlannedModels = std::vector<std::shared_ptr<const PlannedModel>>;

/// The text of a file with one net's rates: a line with the columns, then one for each rate.
[[nodiscard]] std::string planned_csv(const std::string& model, std::span<const PlannedRate> rates);

/// Reads such files, one after the other.
/// Errors    the file and the line, what is wrong and what is required; a net that has no rates for
///           a type of the cluster's devices
[[nodiscard]] Result<PlannedModels> read_planned_models(const std::vector<std::string>& files,
                                                        const Cluster& cluster);

/// As read_planned_models(), for a text; errors call it `name`.
[[nodiscard]] Result<PlannedModels> parse_planned_models(const std::string& text,
                                                         const std::string& name);

/// Errors    a net lacks rates that the cluster's jobs could have
[[nodiscard]] Result<void> check_covers(const PlannedModels& models, const Cluster& cluster,
                                        const std::string& name);

/// Gives jobs that name one of the nets its rates, and jobs that name none one of the nets, chosen
/// by the job's name. Others keep their net. What an iteration takes with one worker is the
/// device's stage, and what more workers take beyond that is the network's.
void plan_jobs(std::vector<Job>& jobs, const PlannedModels& models, const Cluster& cluster);

}  // namespace taut::schedule
