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
  std::size_t memory = 0;  // the memory it uses: an index in WorkerList::memory
  JobId job{};             // the one it works for; 0: it is idle
  bool leaves = false;     // it leaves that job, and will be idle
};

/// All workers, and the memory that they share.
struct WorkerList {
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  std::vector<WorkerPlace> workers;
  std::vector<std::uint64_t> memory;  // bytes that no job has reserved
};

/// Free workers that a scheduling policy gives out: the idle ones of a list, or a number of workers
/// that are all alike.
class FreeWorkers {
 public:
  /// list   if it has workers, its idle ones are free; it must outlive this object
  /// count  the number of free workers if the list has none
  FreeWorkers(const WorkerList& list, std::uint32_t count);

  /// How many of them a job with this demand can have.
  [[nodiscard]] std::uint32_t fitting(const PlaceDemand& demand) const;
  /// Takes `count` of them near each other, if possible those with the fewest devices.
  /// Returns their positions in the list, ascending; empty if there is no list.
  /// near      takes those nearest to this job's workers; 0: no job
  /// REQUIRES  count <= fitting(demand)
  std::vector<std::size_t> take(const PlaceDemand& demand, std::uint32_t count,
                                JobId near = JobId());
  /// Frees up to `count` of a job's workers that fit `fitting_demand`: first those in racks and on
  /// hosts with the fewest of the job's workers, so that it keeps as few hosts as possible. Returns
  /// their positions.
  /// demand  the job's
  std::vector<std::size_t> release(JobId job, const PlaceDemand& demand, std::uint32_t count,
                                   const PlaceDemand& fitting_demand);
  /// Frees all `count` workers that stay with a job.
  void release_all(JobId job, const PlaceDemand& demand, std::uint32_t count);
  /// Frees those of a job that are leaving it.
  void release_leaving(JobId job, const PlaceDemand& demand);
  /// Takes the workers at these positions, and the memory that a job requires of them.
  void remove(const std::vector<std::size_t>& places, const PlaceDemand& demand,
              std::uint32_t count);
  /// Frees the workers at positions that take() has returned.
  void put_back(const std::vector<std::size_t>& places, const PlaceDemand& demand);

 private:
  void release_one(std::size_t place, const PlaceDemand& demand);
  [[nodiscard]] std::vector<std::size_t> candidates(const PlaceDemand& demand,
                                                    std::uint32_t max_devices) const;
  /// The hosts of the workers that stay with a job; empty for job 0.
  [[nodiscard]] std::vector<std::string> hosts_of(JobId job) const;
  [[nodiscard]] std::vector<std::size_t> farthest_first(JobId job) const;

  const WorkerList* list_;
  std::vector<bool> is_free_;
  std::vector<std::uint64_t> memory_;
  std::uint32_t count_;
};

/// "rack3" of "rack3/node7"; empty if no rack is named. Hosts without one count as near each other,
/// as if they were in one rack.
[[nodiscard]] std::string_view rack_of(std::string_view host);

/// Chooses `count` workers near each other: from the smallest host that has enough; or else from
/// the smallest rack that has enough, or from all, on as few hosts as possible. Returns positions
/// in `hosts`, ascending.
/// hosts     of the workers to choose from
/// REQUIRES  count <= hosts.size()
[[nodiscard]] std::vector<std::size_t> choose_workers(const std::vector<std::string>& hosts,
                                                      std::size_t count);

/// All positions in `hosts`, the nearest to a job first: the job's own hosts, then its racks, then
/// the rest; within each of these, hosts with more workers first.
/// near      the hosts of the job's workers; if empty, the order is unchanged
[[nodiscard]] std::vector<std::size_t> nearest_first(const std::vector<std::string>& hosts,
                                                     const std::vector<std::string>& near);

}  // namespace taut
