#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/types.hpp"

namespace taut {

/// What a job requires of each of its workers.
struct PlaceDemand {
  std::uint64_t memory = 0;   // bytes of host memory
  std::uint32_t devices = 0;  // at least
  [[nodiscard]] bool none() const { return memory == 0 && devices == 0; }
};

/// A worker that jobs may have.
struct WorkerPlace {
  std::string name;
  std::string host;  // "HOST", or "RACK/HOST" if its rack is known
  std::uint32_t devices = 0;
  std::size_t memory = 0;  // whose memory it uses: an index of WorkerList::memory
  JobId job{};             // that it works for; 0: it is idle
  bool leaves = false;     // it leaves that job, and will be idle
};

/// All workers, and the memory that they share.
struct WorkerList {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  std::vector<WorkerPlace> workers;
  std::vector<std::uint64_t> memory;  // bytes that no job has reserved
};

/// Workers that are free, as a scheduling policy gives them out: those of a list, or a number of
/// workers that are all alike.
class FreeWorkers {
 public:
  /// list   if it has workers, those of it that are idle are free; it must outlive this
  /// count  otherwise, so many
  FreeWorkers(const WorkerList& list, std::uint32_t count);

  /// How many of them a job can have.
  [[nodiscard]] std::uint32_t fitting(const PlaceDemand& demand) const;
  /// Takes `count` of them, near each other, where that is possible those with the fewest devices.
  /// Returns their positions in the list, ascending; empty: there is no list.
  /// near      those nearest to the workers of this job; 0: of no job
  /// REQUIRES  count <= fitting(demand)
  std::vector<std::size_t> take(const PlaceDemand& demand, std::uint32_t count,
                                JobId near = JobId());
  /// Frees `count` of a job's workers that fit `fitting_demand`: first those of racks and hosts
  /// that have the fewest of the job's, so that it keeps as few hosts as can be. Returns their
  /// positions.
  /// demand  the job's
  std::vector<std::size_t> release(JobId job, const PlaceDemand& demand, std::uint32_t count,
                                   const PlaceDemand& fitting_demand);
  /// Frees all of a job's workers.
  void release_all(JobId job, const PlaceDemand& demand, std::uint32_t count);
  /// Frees those of a job that are leaving it.
  void release_leaving(JobId job, const PlaceDemand& demand);
  /// Takes those of these positions, with what a job requires.
  void remove(const std::vector<std::size_t>& places, const PlaceDemand& demand,
              std::uint32_t count);
  /// Frees those of these positions again, which take() has given.
  void put_back(const std::vector<std::size_t>& places, const PlaceDemand& demand);

 private:
  void release_one(std::size_t place, const PlaceDemand& demand);
  [[nodiscard]] std::vector<std::size_t> candidates(const PlaceDemand& demand,
                                                    std::uint32_t max_devices) const;
  /// Of the workers that stay with a job; empty for job 0.
  [[nodiscard]] std::vector<std::string> hosts_of(JobId job) const;
  [[nodiscard]] std::vector<std::size_t> farthest_first(JobId job) const;

  const WorkerList* list_;
  std::vector<bool> is_free_;
  std::vector<std::uint64_t> memory_;
  std::uint32_t count_;
};

/// "rack3" of "rack3/node7"; empty: no rack is named. Hosts without one are near each other, as if
/// they were in one rack.
[[nodiscard]] std::string_view rack_of(std::string_view host);

/// Chooses `count` of them near each other: from the host whose workers exceed the number least; or
/// else from the rack whose workers do, or from any, on as few hosts as can be. Returns positions
/// in `hosts`, ascending.
/// hosts     of the workers to choose from
/// REQUIRES  count <= hosts.size()
[[nodiscard]] std::vector<std::size_t> choose_workers(const std::vector<std::string>& hosts,
                                                      std::size_t count);

/// All positions in `hosts` in the order in which they are near to a job: first the job's own
/// hosts, then its racks, then the rest; of each, hosts with more workers first.
/// near      the hosts of the job's workers; empty: the order stays
[[nodiscard]] std::vector<std::size_t> nearest_first(const std::vector<std::string>& hosts,
                                                     const std::vector<std::string>& near);

}  // namespace taut
