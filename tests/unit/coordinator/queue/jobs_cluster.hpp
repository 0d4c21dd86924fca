#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

namespace taut::test {

/// A cluster of two servers with two shards each, and this many workers.
class Jobs : public FakeCluster {
 public:
  explicit Jobs(int workers, bool preempts = false, std::uint64_t seed = 1,
                FakeNetwork network = {})
      : FakeCluster(seed, network) {
    options.scheduling.set_preemption(preempts);
    restart_coordinator(std::chrono::milliseconds(1));
    for (int i = 0; i < 2; ++i) add_server("s" + std::to_string(i), 2);
    for (int i = 0; i < workers; ++i) add_worker("w" + std::to_string(i));
    run_for(std::chrono::seconds(1));
  }

  std::uint64_t start(const pb::Job& definition) {
    const std::uint64_t job = submit(definition).job();
    REQUIRE(run_until_state(job, pb::RUNNING));
    return job;
  }

  pb::CommandReply change(std::uint64_t job, std::optional<bool> held,
                          std::optional<std::int32_t> priority = {}) {
    pb::ControlMessage request;
    request.mutable_change_queue()->set_job(job);
    if (held) request.mutable_change_queue()->set_held(*held);
    if (priority) request.mutable_change_queue()->set_priority(*priority);
    return ask(request).command_reply();
  }

  /// The names of the workers that work for a job.
  std::set<std::string> workers_of(std::uint64_t job) {
    std::set<std::string> names;
    const pb::JobStatus now = status(job);
    for (const pb::WorkerStatus& worker : now.workers()) {
      if (worker.state() == pb::PROCESS_RUNNING) names.insert(worker.name());
    }
    return names;
  }
};

using Names = std::set<std::string>;
using Numbers = std::vector<std::uint64_t>;

/// A job that may have `least` to `most` workers.
inline pb::Job elastic_job(std::uint32_t least, std::uint32_t most, std::int32_t max_iter = 20000) {
  pb::Job definition = make_job(most, max_iter);
  definition.set_min_workers(least);
  return definition;
}

inline pb::Job with_priority(pb::Job definition, std::int32_t priority) {
  definition.set_priority(priority);
  return definition;
}

}  // namespace taut::test
