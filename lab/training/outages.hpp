#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/random.hpp"
#include "lab/training/processes.hpp"
#include "proto/lab.pb.h"

namespace taut::lab {

/// A host that went away.
struct HostLoss {
  std::string host;
  double at_s = 0;  // when it was gone, in seconds after the job was submitted
  std::optional<double> back_s;
  bool had_notice = false;
};

/// Makes hosts go away and return as a cluster file says: at times that it lists, or that a seed
/// draws from its rates. A host that is away, or about to go, is left alone.
class Outages {
 public:
  /// Everything but the cluster must outlive this.
  /// limit  later outages are left out
  Outages(World& world, Processes& processes, const pb::LabCluster& cluster, std::uint64_t seed,
          TimePoint limit);
  Outages(const Outages&) = delete;
  Outages& operator=(const Outages&) = delete;

  /// Called when the job is submitted; times count from then.
  void begin();
  [[nodiscard]] const std::vector<HostLoss>& losses() const { return losses_; }

 private:
  /// One entry of the file for one host.
  struct OutageSource {
    pb::LabOutage outage;
    std::size_t host = 0;
    sim::Random random;
  };
  void expect(std::size_t source);
  void trigger(std::size_t source);
  void take_down(std::size_t source);
  void bring_back(std::size_t source, std::size_t loss);
  [[nodiscard]] double since_submitted_s() const;

  World& world_;
  Processes& processes_;
  const TimePoint limit_;
  std::vector<OutageSource> sources_;
  std::vector<bool> is_affected_;  // by host: it is away, or about to go
  std::vector<HostLoss> losses_;
  TimePoint begun_;
};

/// Draws the seconds until the next of events with this rate: exponentially distributed.
[[nodiscard]] double wait_s(sim::Random& random, double per_hour);

}  // namespace taut::lab
