// A coordinator that starts with records that say anything: it refuses them or continues from them.
// The first byte chooses the state in which the records were saved; what follows changes them.
#include <google/protobuf/stubs/logging.h>

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "server/coordinator/store/check_record.hpp"
#include "tests/fuzz/change_message.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/script.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

namespace taut {
namespace {

using fuzz::Script;
using namespace std::chrono_literals;

void add_processes(FakeCluster& cluster) {
  for (const char* name : {"s0", "s1"}) cluster.add_server(name);
  for (const char* name : {"w0", "w1"}) cluster.add_worker(name);
  cluster.run_for(1s);
}

/// What a coordinator has saved of jobs that wait, run, have written checkpoints, and have ended.
std::vector<CoordinatorRecords> make_records() {
  std::vector<CoordinatorRecords> all;
  const auto saved = std::make_shared<CoordinatorRecords>();
  FakeCluster cluster(1, {}, make_memory_store(saved));
  pb::Job definition = make_job(2, 3000);
  definition.mutable_checkpoint()->set_every(50);
  definition.mutable_checkpoint()->set_folder("/checkpoints");
  add_processes(cluster);
  const std::uint64_t waiting = cluster.submit(definition, 55).job();
  all.push_back(*saved);
  cluster.run_until_state(waiting, pb::RUNNING);
  cluster.run_for(2s);
  all.push_back(*saved);
  cluster.set_slack(waiting, 5);
  cluster.kill("w1");
  cluster.run_for(20s);
  cluster.submit(make_job(1, 100));
  all.push_back(*saved);
  cluster.stop(waiting);
  cluster.run_for(20s);
  all.push_back(*saved);
  return all;
}

void play(Script script) {
  static const std::vector<CoordinatorRecords> states = make_records();
  const auto records = std::make_shared<CoordinatorRecords>(
      states.at(script.pick(static_cast<std::uint32_t>(states.size()))));
  while (!script.is_over()) {
    fuzz::MessageChange change(script);
    if (script.pick(16) == 0) {
      change.apply(records->counters);
      continue;
    }
    auto job = records->jobs.begin();
    std::advance(job, script.pick(static_cast<std::uint32_t>(records->jobs.size())));
    change.apply(job->second);
  }
  for (auto& [id, job] : records->jobs) {
    // As a store reads it: what is no text does not parse.
    if (!job.ParseFromString(job.SerializeAsString()) || !damage_of(id, job).empty()) return;
  }
  FakeCluster cluster(1, {}, make_memory_store(records));
  add_processes(cluster);
  cluster.status(0);
  cluster.run_for(3s);
  cluster.restart_coordinator(1s);
  cluster.run_for(1s);
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  std::vector<std::string> samples;
  for (char state = 0; state < 4; ++state) {
    samples.emplace_back(1, state);
    std::string changes(1, state);
    for (int i = 0; i < 40; ++i) changes += static_cast<char>(i * 37 + state);
    samples.push_back(changes);
  }
  return samples;
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  taut::play(taut::fuzz::Script({data, size < 200 ? size : 200}));
  return 0;
}
