// A sender with all rights requests anything, valid or broken, while processes join, report what
// they like, such as that a shard answers none of them, and die: the coordinator stays, its jobs
// can be ended, and one of further processes is trained afterwards.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/control_message.hpp"
#include "tests/fuzz/change_message.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/script.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

namespace taut {
namespace {

using fuzz::Script;
using namespace std::chrono_literals;

constexpr std::array kServers = {"s0", "s1", "s2"};
constexpr std::array kWorkers = {"w0", "w1", "w2"};
constexpr std::size_t kMaxSteps = 40;
constexpr PeerId kClient(1'000'000);  // no process of the cluster

/// What a job may have in addition.
enum Feature : std::uint8_t {
  kCheckpoints,
  kIncremental,
  kCoded,
  kMinWorkers,
  kExternal,
  kMemory,
  kServerMemory,
  kAsync,
  kBalance,
  kFollowers,
  kRestart,
  kSpareWorkers,
  kEncoding,
  kExchange,
  kFeatures
};

/// value  up to 63: how much of it
void add(Feature feature, std::uint32_t value, pb::Job& job) {
  switch (feature) {
    case kCheckpoints:
      return job.mutable_checkpoint()->set_every(1 + value % 16);
    case kIncremental:
      return job.mutable_checkpoint()->set_incremental(true);
    case kCoded:
      job.mutable_checkpoint()->mutable_coded()->set_data(1 + value % 2);
      return job.mutable_checkpoint()->mutable_coded()->set_parity(1);
    case kMinWorkers:
      return job.set_min_workers(1 + value % 3);
    case kExternal:
      return job.set_external_members(true);
    case kMemory:
      return job.mutable_resources()->set_memory(std::uint64_t{1} << value);
    case kServerMemory:
      return job.mutable_resources()->set_server_memory(std::uint64_t{value % 4} << 18U);
    case kAsync:
      return job.mutable_consistency()->set_mode(pb::Consistency::ASYNC);
    case kBalance: {
      job.set_balance(true);
      pb::LayerParameter& layer = *job.mutable_net_param()->add_layer();
      layer.set_type("Data");
      return layer.mutable_data_param()->set_batch_size(8 + value);
    }
    case kFollowers:
      return job.mutable_followers()->set_slack(value % 3);
    case kRestart:
      return job.set_restart(1 + value % 2);
    case kSpareWorkers:
      return job.mutable_consistency()->set_backup_workers(value % 2);
    case kEncoding:
      job.mutable_compression()->add_push()->set_scheme(pb::PushCompression::AUTO);
      return job.mutable_compression()->add_pull()->set_scheme(pb::PullCompression::AUTO);
    case kExchange:
      job.mutable_consistency()->set_slack(0);
      job.mutable_exchange()->set_type(value % 2 == 0 ? pb::WorkerExchange::ALLREDUCE
                                                      : pb::WorkerExchange::GOSSIP);
      return settle_exchange(job);
    case kFeatures:
      return;
  }
}

pb::Job strange_job(Script& script) {
  const std::uint32_t workers = 1 + script.pick(3);
  const std::int32_t clocks = 100 * (1 + script.byte());
  pb::Job job = make_job(workers, clocks, script.pick(3));
  job.mutable_checkpoint()->set_folder("/checkpoints");
  job.mutable_checkpoint()->set_keep(script.pick(3));
  job.set_priority(static_cast<std::int32_t>(script.pick(4)));
  for (std::uint8_t feature = 0; feature < kFeatures; ++feature) {
    const std::uint32_t byte = script.byte();
    if (byte % 4 == 1) add(static_cast<Feature>(feature), byte / 4, job);
  }
  return job;
}

void fill(Script& script, std::uint64_t job, pb::ChangeQueue& change) {
  change.set_job(job);
  if (script.pick(2) == 0) {
    change.set_held(script.pick(2) == 0);
  } else {
    change.set_priority(static_cast<std::int32_t>(script.pick(8)));
  }
}

void fill(Script& script, pb::Follow& follow) {
  follow.set_follower(1 + script.pick(3));
  follow.set_name("reader");
  follow.set_bounded(script.pick(2) == 0);
  follow.set_version(static_cast<std::int64_t>(script.pick(8)) - 1);
  if (script.pick(2) == 0) follow.set_address("127.0.0.1:3");
  follow.set_avoid(script.pick(3));
  follow.set_leaves(script.pick(4) == 0);
}

/// newest  of the jobs, about
pb::ControlMessage request_of(Script& script, std::uint64_t& newest) {
  pb::ControlMessage message;
  const std::uint64_t back = script.pick(3);
  const std::uint64_t job = newest > back ? newest - back : 1;
  switch (script.pick(12)) {
    case 0:
    case 1:
      *message.mutable_submit()->mutable_definition() = strange_job(script);
      ++newest;
      message.mutable_submit()->set_user(script.pick(2) == 0 ? "ann" : "bob");
      break;
    case 2:
      message.mutable_set_slack()->set_job(job);
      message.mutable_set_slack()->set_slack(static_cast<std::int64_t>(script.number()));
      break;
    case 3:
      message.mutable_stop_job()->set_job(job);
      message.mutable_stop_job()->set_discard(script.pick(2) == 0);
      break;
    case 4:
      fill(script, job, *message.mutable_change_queue());
      break;
    case 5:
      message.mutable_make_checkpoint()->set_job(job);
      break;
    case 6:
      message.mutable_drain()->set_name(script.pick(2) == 0 ? kServers.at(script.pick(3))
                                                            : kWorkers.at(script.pick(3)));
      break;
    case 7:
      message.mutable_status_request()->set_job(job);
      message.mutable_status_request()->set_definition(true);
      break;
    case 8:
      message.mutable_set_trace()->set_on(script.pick(2) == 0);
      break;
    case 9:
      fill(script, *message.mutable_follow());
      message.mutable_follow()->set_job(job);
      break;
    case 10:
      message.mutable_check_nodes()->set_number(script.pick(4));
      break;
    default:
      message.mutable_log_request();
  }
  return message;
}

/// What a worker says of its link and its codecs, where the coordinator chooses the schemes.
pb::CompressionCosts strange_costs(Script& script) {
  constexpr std::array kRates = {1e6, 1e11, 1e8, 0.0};
  pb::CompressionCosts costs;
  costs.set_bytes_per_s(kRates.at(script.pick(kRates.size())));
  costs.set_compute_s(0.01);
  std::uint64_t bytes = 4'000'000;
  for (const auto scheme : {pb::PushCompression::FLOAT32, pb::PushCompression::FP16,
                            pb::PushCompression::BF16, pb::PushCompression::INT8}) {
    for (auto* list : {costs.mutable_push(), costs.mutable_pull()}) {
      pb::SchemeCost& cost = *list->Add();
      cost.set_scheme(scheme);
      cost.set_bytes(bytes);
    }
    bytes /= 2;
  }
  if (script.pick(4) == 0) {
    fuzz::MessageChange change(script);
    change.apply(costs);
  }
  return costs;
}

/// Something happens to a process.
void strike(Script& script, FakeCluster& cluster, const std::string& name, bool is_server) {
  FakeCluster::Process& process = cluster.at(name);
  switch (script.pick(13)) {
    case 0:
      cluster.kill(name);
      cluster.run_for(Duration(std::chrono::milliseconds(script.pick(64) * 100)));
      if (is_server) {
        cluster.add_server(name).server.is_whole = true;
      } else {
        cluster.add_worker(name);
      }
      break;
    case 1:
      process.cut_off = !process.cut_off;
      break;
    case 2:
      process.worker.fails = script.pick(2) == 0 ? "no such file" : "";
      process.worker.diverges = script.pick(2) == 0;
      break;
    case 3:
      process.worker.leaves = static_cast<FakeWorker::Leaves>(script.pick(3));
      break;
    case 4:
      process.server.disk = script.pick(2) == 0 ? "no space left" : "";
      process.server.stalls = script.pick(4) == 0;
      break;
    case 5:
      process.server.bad_updates[script.pick(3)] = script.number();
      break;
    case 6:
      process.server.refuses = script.pick(2) == 0 ? "no memory" : "";
      break;
    case 7:
      process.server.set_busy(script.pick(2) == 0);
      break;
    case 8:
      process.server.is_whole = script.pick(2) == 0;
      process.server.memory = script.pick(4) == 3 ? "no memory for images" : "";
      break;
    case 9:
      process.worker.measured = strange_costs(script);
      break;
    case 10:
      process.worker.listens = script.pick(2) == 0;
      process.worker.broken = script.pick(4);
      break;
    case 11:
      process.facts.set_number(script.pick(4));
      process.facts.set_name("a lie");
      break;
    default:
      process.worker.silent.reset();
      if (script.pick(4) == 3) break;
      process.worker.silent.emplace();
      process.worker.silent->set_shard(static_cast<std::uint32_t>(script.number()));
      process.worker.silent->set_term(1 + script.number());
  }
}

void play(Script script) {
  FakeCluster cluster(1 + script.byte());
  const std::uint32_t copies = script.pick(3);
  cluster.options.replication_interval = copies == 0 ? 0 : 1;
  cluster.options.replication_copies = copies == 0 ? 1 : copies;
  cluster.options.ended_jobs = 2;
  pb::Quota& quota = *cluster.options.scheduling.add_quota();
  quota.set_user("ann");
  quota.set_workers(2);
  quota.set_jobs(1);
  cluster.restart_coordinator(1s);
  for (const char* name : kServers) {
    const std::size_t shards = 1 + script.pick(2);
    cluster.add_server(name, shards, script.pick(2) == 0 ? 0 : 1 << 20).server.is_whole = true;
  }
  for (const char* name : kWorkers) cluster.add_worker(name);
  cluster.run_for(1s);
  std::uint64_t newest = 0;
  for (std::size_t step = 0; step < kMaxSteps && !script.is_over(); ++step) {
    const std::uint32_t kind = script.pick(8);
    if (kind < 4) {
      pb::ControlMessage request = request_of(script, newest);
      if (script.pick(4) == 0) {
        fuzz::MessageChange change(script);
        change.apply(request);
      }
      const auto message = decode_control(encode(request));
      if (message) cluster.hear(kClient, {"owner", KeyRole::kOwner}, message.value());
    } else if (kind < 6) {
      const bool is_server = script.pick(2) == 0;
      strike(script, cluster, is_server ? kServers.at(script.pick(3)) : kWorkers.at(script.pick(3)),
             is_server);
    } else if (kind == 6 && script.pick(4) == 0) {
      cluster.restart_coordinator(1s);
    }
    cluster.run_for(std::chrono::milliseconds(10 * script.byte()));
  }
  // What is left is ended, and the processes that did it all are gone.
  for (const char* name : kServers) cluster.kill(name);
  for (const char* name : kWorkers) cluster.kill(name);
  cluster.run_for(60s);
  pb::ControlMessage all;
  all.mutable_status_request();
  const pb::ControlMessage status = cluster.ask(all);
  for (const pb::JobStatus& job : status.status_reply().jobs()) {
    (void)cluster.stop(job.job());
  }
  cluster.run_for(60s);
  for (const char* name : {"t0", "t1"}) cluster.add_server(name);
  for (const char* name : {"v0", "v1"}) cluster.add_worker(name);
  cluster.run_for(1s);
  const pb::SubmitReply reply = cluster.submit(make_job(2, 50));
  TAUT_CHECK(reply.error().empty(), "a job is accepted");
  TAUT_CHECK(cluster.run_until_state(reply.job(), pb::DONE), "it ends");
}

/// The steps of a job that is submitted, with these features.
std::string submission(char workers, const std::vector<Feature>& features) {
  std::string steps{0, 0, 0, static_cast<char>(workers - 1), 1, 1, 0, 1};
  std::string of_features(kFeatures, '\0');
  for (const Feature one : features) of_features[one] = 1;
  return steps + of_features + std::string{1, 1, 20};
}

/// The same happens to each worker.
std::string at_each_worker(const std::string& what) {
  std::string steps;
  for (char worker = 0; worker < 3; ++worker) {
    steps += std::string{4, 1, worker} + what + static_cast<char>(worker < 2 ? 5 : 120);
  }
  return steps;
}

}  // namespace
}  // namespace taut

std::vector<std::string> taut::fuzz::samples() {
  // A job with a feature, and one that may be followed; then each request and each stroke in
  // another order.
  const std::vector<std::vector<Feature>> features = {
      {},
      {kCheckpoints, kCoded},
      {kBalance},
      {kEncoding},
      {kExchange},
      {kRestart},
      {kCheckpoints, kIncremental},
      {kAsync},
      {kMinWorkers},
      {kSpareWorkers},
      {kServerMemory},
  };
  const std::string follow{0, 0, 9, 0, 0, 1, 0, 0, 1, 1, 50};
  const std::string unfollow{0, 0, 9, 0, 0, 1, 0, 0, 0, 1, 50};
  const std::string wait{7, 127, 7, 127, 7, 127, 7, 127};
  const std::string measured = at_each_worker({9, 0, 1});
  const std::vector<std::string> acts{
      {0, 0, 2, 3, 1, 20},      // a slack
      {0, 0, 4, 0, 0, 1, 20},   // a job is held
      {0, 0, 4, 1, 5, 1, 20},   // a priority
      {0, 1, 5, 1, 120},        // a checkpoint
      {0, 0, 6, 0, 1, 1, 120},  // a server is drained
      {0, 0, 6, 1, 1, 1, 120},  // a worker is
      {0, 0, 7, 1, 5},          // status
      {0, 0, 8, 0, 1, 5},       // timelines
      // The nodes are checked, and two of them answer.
      {0, 0, 10, 1, 1, 5, 4, 0, 0, 11, 1, 5, 4, 1, 1, 11, 1, 120, 0, 0, 10, 1, 1, 5},
      {0, 0, 11, 1, 5},                          // a log
      {4, 0, 0, 0, 10, 120},                     // a server dies and returns
      {4, 1, 0, 0, 50, 120},                     // a worker does
      {4, 1, 1, 2, 0, 1, 120},                   // a worker fails
      {4, 1, 0, 2, 0, 0, 120},                   // a training diverges
      {4, 1, 1, 3, 2, 120},                      // a worker leaves
      {4, 0, 0, 4, 0, 1, 120},                   // a disk is full
      {4, 0, 2, 1, 120},                         // a server is cut off
      {6, 0, 120},                               // the coordinator restarts
      {0, 1, 3, 1, 1, 120},                      // a job is stopped
      {4, 0, 1, 8, 1, 3, 60},                    // a server keeps no images
      {4, 1, 0, 10, 0, 1, 120},                  // the sums of a worker have failed
      {4, 0, 0, 0, 60, 5, 4, 0, 1, 0, 60, 120},  // two servers die
      // No worker gets an answer of shard 0, or of shard 1; then they do again.
      at_each_worker({12, 0, 0, 0}),
      at_each_worker({12, 0, 1, 0}),
      at_each_worker({12, 3}),
  };
  std::vector<std::string> samples;
  for (std::size_t seed = 0; seed < 2 * acts.size(); ++seed) {
    const auto& of_first = features[seed % features.size()];
    std::string steps{static_cast<char>(seed), static_cast<char>(seed / 2 % 3), 1, 1, 1, 1, 1, 1};
    steps += submission(2, of_first);
    if (std::ranges::count(of_first, kEncoding) > 0) steps += measured;
    steps += submission(1, {kFollowers}) + follow + acts[seed % acts.size()] +
             (seed % 4 == 0 ? unfollow : follow) + wait + acts[7 * seed % acts.size()] + wait +
             acts[11 * seed % acts.size()] + wait + follow;
    samples.push_back(steps);
  }
  return samples;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  taut::play(taut::fuzz::Script({data, size < 400 ? size : 400}));
  return 0;
}
