#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

namespace taut::test {

using Clocks = std::vector<std::int64_t>;

/// A job of this many clocks with a checkpoint at every tenth.
inline pb::Job saved_job(std::int32_t clocks, std::uint32_t keep = 0) {
  pb::Job job = make_job(2, clocks);
  job.set_name("lenet");
  job.mutable_checkpoint()->set_every(10);
  job.mutable_checkpoint()->set_keep(keep);
  job.mutable_checkpoint()->set_folder("saved");
  return job;
}

/// Two servers and two workers.
struct CheckpointCluster : FakeCluster {
  explicit CheckpointCluster(std::uint64_t seed = 1, FakeNetwork network = {})
      : FakeCluster(seed, network) {
    add_server("s0");
    add_server("s1");
    add_worker("w0");
    add_worker("w1");
    // A job's servers are those that are here when it starts.
    const auto is_joining = [](const std::string& note) { return note.ends_with("has joined"); };
    REQUIRE(run_until([&] { return std::ranges::count_if(notes, is_joining) == 4; }));
  }
  std::uint64_t start(const pb::Job& job) {
    const pb::SubmitReply reply = submit(job);
    REQUIRE(reply.error().empty());
    return reply.job();
  }
  Clocks kept(std::uint64_t job) {
    Clocks clocks;
    const pb::JobStatus reply = status(job);
    for (const pb::KeptCheckpoint& one : reply.checkpoints()) clocks.push_back(one.clock());
    return clocks;
  }
  [[nodiscard]] bool noted(const std::string& part) const {
    return std::ranges::any_of(
        notes, [&](const std::string& note) { return note.find(part) != std::string::npos; });
  }
  pb::CommandReply make_checkpoint(std::uint64_t job) {
    pb::ControlMessage request;
    request.mutable_make_checkpoint()->set_job(job);
    return ask(request).command_reply();
  }
};

}  // namespace taut::test
