#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/doctor/data_sets.hpp"
#include "cli/doctor/finding.hpp"
#include "cli/doctor/machine.hpp"
#include "proto/cluster.pb.h"

namespace taut::cli {

// Each check judges one aspect of the machine. They read nothing but the Machine's facts.

/// Which coordinator is checked, and how.
struct CoordinatorAim {
  std::string address;
  double wait_s = 2;
  bool must_answer = false;  // it was named, or the config's own process does not host it
};

/// The config's addresses and limits, beyond what reading it has checked.
[[nodiscard]] Findings check_config(const pb::ClusterConfig& config);
/// The coordinator: its members, and its clock compared with this machine's.
/// answers  set to whether it answers
[[nodiscard]] Findings check_coordinator(const CoordinatorAim& aim, Machine& machine,
                                         bool& answers);
/// Whether what the config listens on is free. A port in use is no trouble if the cluster already
/// runs.
[[nodiscard]] Findings check_ports(const pb::ClusterConfig& config, bool coordinator_answers,
                                   Machine& machine);
[[nodiscard]] Findings check_shared_memory(const pb::ClusterConfig& config, Machine& machine);
/// The folders that daemons and runs write into, and /dev/shm.
[[nodiscard]] Findings check_disk(const pb::ClusterConfig& config, Machine& machine);
[[nodiscard]] Findings check_gpu(const pb::ClusterConfig& config, const GpuFacts& gpu);
[[nodiscard]] Findings check_host(const pb::ClusterConfig& config, const HostFacts& host);
[[nodiscard]] Findings check_versions(const std::vector<LibraryFacts>& libraries,
                                      const std::vector<ProgramFacts>& programs,
                                      const std::string& own_build);
[[nodiscard]] Findings check_data(const std::vector<DataSetFacts>& sets);

/// How far the coordinator's clock is ahead of this machine's, from the reading with the shortest
/// round trip, which is the most certain one.
/// Source    Cristian, "Probabilistic clock synchronization", Distributed Computing 3, 1989
struct ClockOffset {
  double seconds = 0;
  double uncertain_by = 0;  // half of the round trip
};
/// nullopt if no reading has a time.
[[nodiscard]] std::optional<ClockOffset> clock_offset(const std::vector<ClockReading>& readings);

}  // namespace taut::cli
