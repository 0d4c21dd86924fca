#include "lab/training/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/system/memory.hpp"
#include "lab/training/costs/cluster_misfit.hpp"
#include "lab/training/costs/memory_needs.hpp"
#include "lab/training/outages.hpp"
#include "lab/training/processes.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "proto/formats/resume_point.hpp"
#include "server/coordinator/coordinator_config.hpp"
#include "worker/model/row_parameters.hpp"

namespace taut::lab {
namespace {

/// Has a job saved on the run's disk where it requests that, or not at all.
void settle_checkpoints(bool is_saved, pb::Job& job) {
  pb::SolverParameter& solver = *job.mutable_solver_param();
  if (!is_saved) {
    job.clear_checkpoint();
    solver.clear_snapshot();
    solver.set_snapshot_after_train(false);
    return;
  }
  if (!job.has_checkpoint() && solver.snapshot() == 0 && !solver.snapshot_after_train()) return;
  job.mutable_checkpoint()->set_folder(RunDisk::kCheckpoints);
  // Parts of files are for the disks of servers, which have none here.
  job.mutable_checkpoint()->clear_coded();
}

/// The job as the lab runs it: it starts once.
Result<pb::Job> job_of(const TrainingOptions& options) {
  const pb::Job& requested = options.job;
  const pb::NetworkFaults& faults = requested.network();
  if (faults.delay_ms() > 0 || faults.jitter_ms() > 0 || faults.loss() > 0) {
    return invalid(
        "network: the lab's links come from the cluster file; give latency_us and jitter_us there");
  }
  if (chooses_compression(requested)) {
    return invalid(
        "compression: AUTO is chosen from what workers measure of machines and links, of which the "
        "lab has models; name a scheme");
  }
  pb::Job job = requested;
  job.clear_restart();
  settle_checkpoints(options.learns && !options.folder.empty(), job);
  return job;
}

/// The cluster's processes, and what drives them.
class Training {
 public:
  explicit Training(const TrainingOptions& options) : options_(options) {}

  Result<TrainingOutcome> run() {
    TAUT_TRY(start());
    TAUT_TRY(drive());
    if (world_.playback != nullptr) world_.playback->close(world_.now());
    return outcome();
  }

  /// Errors    those with which run() refuses the options before it does anything
  Result<void> check() {
    TAUT_TRY(const pb::Job job, job_of(options_));
    TAUT_TRY(open(job));
    TAUT_TRY(process_options(job));
    return ok();
  }

 private:
  /// Opens the job and places it on the cluster, if it can be trained there.
  Result<void> open(const pb::Job& job) {
    TAUT_TRY(assets_, open_assets(job));
    if (const auto rows = model::row_parameters(assets_->train_graph());
        !options_.learns && !rows.empty()) {
      return invalid(
          fmt::format("layer \"{}\": which rows a worker reads is in its data "
                      "(embed_param.by_rows), and without "
                      "learning there is none; omit --no-learning or by_rows",
                      rows[0].layer));
    }
    TAUT_TRY(times_, make_times());
    TAUT_TRY(world_.topology,
             Topology::make(options_.cluster, options_.servers, job.workers(), options_.seed));
    return expect_memory();
  }

  Result<void> start() {
    TAUT_TRY(const pb::Job job, job_of(options_));
    TAUT_TRY(open(job));
    BackendOptions device;
    device.device = DeviceKind::kCpu;
    device.threads = static_cast<int>(options_.threads);
    TAUT_TRY(BackendChoice choice, make_backend(device));
    backend_ = std::move(choice.backend);
    world_.network = std::make_unique<sim::Network>(*world_.topology);
    for (const Topology::Host& host : world_.topology->hosts()) {
      world_.machines.push_back(
          std::make_unique<HostCores>(world_.agenda, *world_.network, host.cores, host.speed));
    }
    for (const Topology::Device& device : world_.topology->devices()) {
      world_.devices.push_back(std::make_unique<HostCores>(
          world_.agenda, *world_.network, 1, world_.topology->hosts()[device.host].speed));
    }
    world_.costs = options_.cluster.costs();
    world_.codecs = CodecCosts(world_.costs);
    world_.backend = backend_.get();
    world_.assets = assets_.get();
    world_.times = times_.get();
    world_.meter = options_.meter;
    world_.pace.emplace(job.workers(), job.solver_param().max_iter());
    if (options_.learns && !options_.folder.empty()) {
      world_.disk = std::make_unique<RunDisk>(options_.folder);
    }
    if (!options_.learns) {
      world_.memory = std::make_unique<CostMemory>(assets_->train_graph().parameters);
    }
    // Each layer is measured where it is computed, and a balanced batch changes its net.
    const bool shares = may_share_net() && options_.meter == nullptr;
    if ((!options_.learns || shares) && !job.balance()) {
      world_.net = assets_->make_net(*backend_, 0);
    }
    settle_worker_config();
    TAUT_TRY(ProcessOptions processes, process_options(job));
    processes_.emplace(world_, std::move(processes));
    set_listeners();
    outages_.emplace(world_, *processes_, options_.cluster, options_.seed, limit());
    processes_->start();
    return ok();
  }

  static Result<std::unique_ptr<worker::JobAssets>> open_assets(const pb::Job& job) {
    TAUT_TRY(worker::JobAssets assets, worker::JobAssets::open(job, job.workers()));
    return std::make_unique<worker::JobAssets>(std::move(assets));
  }

  Result<std::unique_ptr<ComputeTimes>> make_times() {
    TAUT_TRY(ComputeTimes times,
             ComputeTimes::make(options_.cluster.compute(), assets_->train_graph(),
                                assets_->train_batch(), options_.seed));
    return std::make_unique<ComputeTimes>(std::move(times));
  }

  /// Whether one net serves all workers: it draws nothing per worker, and keeps nothing from one
  /// batch to the next.
  [[nodiscard]] bool may_share_net() const {
    static const std::set<std::string> kShared = {
        "Data",    "Input",  "Convolution", "Pooling", "InnerProduct", "ReLU",
        "Sigmoid", "TanH",   "LRN",         "Softmax", "Accuracy",     "SoftmaxWithLoss",
        "Eltwise", "Concat", "Flatten",     "Bias",    "Scale",        "EuclideanLoss"};
    return std::ranges::all_of(assets_->train_graph().nodes, [](const model::Node& node) {
      const pb::LayerParameter& layer = node.definition;
      return kShared.contains(layer.type()) &&
             layer.pooling_param().pool() != pb::PoolingParameter::STOCHASTIC;
    });
  }

  /// As often as in `tautline train`, and less often with many processes, since the coordinator
  /// would do little else.
  void settle_worker_config() {
    world_.config.set_heartbeat_interval_s(heartbeat_s(options_.job.workers()));
    *world_.config.mutable_records() = options_.records;
    world_.config.mutable_worker()->set_shared_memory(false);
    world_.config.mutable_worker()->set_overlap(options_.overlap);
  }

  [[nodiscard]] Result<ProcessOptions> process_options(const pb::Job& job) const {
    const pb::LabControl& control = options_.cluster.control();
    if (const auto misfit = heartbeat_misfit(control, job.workers())) return invalid(misfit->what);
    pb::CoordinatorConfig config;
    config.set_heartbeat_limit_s(control.heartbeat_limit_s());
    config.set_worker_wait_s(control.worker_wait_s());
    config.mutable_replication()->set_interval(control.replication_interval());
    config.mutable_replication()->set_copies(control.replication_copies());
    ProcessOptions options;
    options.job = job;
    if (job.has_resume()) {
      TAUT_TRY(options.resume, resume_point(job.resume()));
    }
    options.servers = options_.servers;
    options.shards = options_.shards;
    options.timings.heartbeat_interval = from_seconds(heartbeat_s(options_.job.workers()));
    options.coordinator = coordinator_options(config);
    options.coordinator.session = 1;
    // It is never lost.
    options.coordinator.is_saved = false;
    // Of a real cluster's limits only memory remains.
    options.coordinator.max_workers = job.workers();
    options.coordinator.max_participants = std::size_t{2} * (job.workers() + options_.servers);
    return options;
  }

  [[nodiscard]] TimePoint limit() const { return TimePoint(from_seconds(options_.limit_s)); }

  Result<void> drive() {
    const TrainingUser& user = processes_->user();
    while (!user.is_over() && user.refusal().empty()) {
      const TimePoint next = std::min(world_.agenda.next(), world_.network->next_due());
      if (next > limit()) {
        return make_error(
            ErrorCode::kTimeout,
            fmt::format("the job has not ended within {:g} s of virtual time", options_.limit_s));
      }
      if (world_.network->next_due() <= world_.agenda.next()) {
        if (auto delivery = world_.network->take_next()) processes_->deliver(std::move(*delivery));
      } else {
        world_.network->advance(std::max(world_.now(), next));
        world_.agenda.take()();
      }
      if (user.has_submitted() && !std::exchange(is_submitted_, true)) outages_->begin();
      TAUT_TRY(keep_limit());
      TAUT_TRY(show());
    }
    if (user.refusal().empty()) return ok();
    return invalid(user.refusal());
  }

  void set_listeners() {
    world_.timeline = options_.timeline;
    world_.playback = options_.playback;
    if (world_.timeline != nullptr) name_rows(*world_.timeline);
    if (world_.playback != nullptr) {
      world_.playback->open(*world_.topology, options_.servers, options_.shards,
                            options_.job.workers());
    }
    if (world_.timeline == nullptr && world_.playback == nullptr) return;
    world_.topology->on_pass([this](const Topology::Passage& passage) {
      if (world_.playback != nullptr) world_.playback->pass(passage);
      if (world_.timeline != nullptr) show(passage, *world_.timeline);
    });
  }

  void name_rows(VirtualTimeline& timeline) const {
    const Topology& topology = *world_.topology;
    const auto name = [&](sim::NodeId node, const std::string& process) {
      timeline.name_process(
          node, fmt::format("{} on {}", process, topology.hosts()[topology.host_of(node)].name));
    };
    for (std::uint32_t i = 0; i < options_.servers; ++i) {
      name(topology.server_node(i), fmt::format("server{}", i));
    }
    for (std::uint32_t i = 0; i < options_.job.workers(); ++i) {
      name(topology.worker_node(i), fmt::format("worker{}", i));
    }
    timeline.draw_clocks_of(topology.worker_node(0));
    timeline.name_process(VirtualTimeline::kLinks, "links");
    for (std::size_t i = 0; i < topology.pipes().size(); ++i) {
      timeline.name_link(static_cast<std::uint32_t>(i), topology.pipes()[i].name);
    }
  }

  static void show(const Topology::Passage& passage, VirtualTimeline& timeline) {
    const auto short_name = [&](sim::NodeId node) {
      const std::string whole =
          timeline.name_of({.process = node, .kind = VirtualTimeline::Kind::kCompute});
      return whole.empty() ? std::string("control") : whole.substr(0, whole.find(' '));
    };
    timeline.add({.process = VirtualTimeline::kLinks,
                  .kind = VirtualTimeline::Kind::kLink,
                  .lane = static_cast<std::uint32_t>(passage.pipe)},
                 fmt::format("{} to {}", short_name(passage.from), short_name(passage.to)),
                 Clock(-1), passage.begin, passage.end);
  }

  /// Refuses jobs for which hosts, the limit or this machine have too little memory.
  [[nodiscard]] Result<void> expect_memory() const {
    const std::vector<TableSpec> tables = model::served_tables(assets_->train_graph());
    TAUT_TRY(const auto misfit, host_misfit(options_.job, tables, options_.cluster,
                                            *world_.topology, options_.servers));
    if (misfit) return invalid(misfit->what);
    TAUT_TRY(const std::uint64_t bytes, lab_memory(options_.job, tables, options_.learns));
    const bool is_limited = options_.memory > Bytes(0);
    const Bytes limit = is_limited ? std::min(options_.memory, machine_memory()) : machine_memory();
    if (bytes <= limit.value()) return ok();
    return too_large(fmt::format("the lab needs at least {} for {} workers", mib_text(Bytes(bytes)),
                                 options_.job.workers()));
  }

  static std::string mib_text(Bytes bytes) {
    constexpr double kMib = 1UL << 20U;
    const double mib = static_cast<double>(bytes.value()) / kMib;
    return mib < 10 ? fmt::format("{:.2g} MiB", mib) : fmt::format("{:.0f} MiB", mib);
  }

  /// what  that takes how much
  [[nodiscard]] Error too_large(const std::string& what) const {
    const bool is_limited = options_.memory > Bytes(0) && options_.memory < machine_memory();
    const std::string has = is_limited
                                ? fmt::format("--memory-limit is {}", mib_text(options_.memory))
                                : fmt::format("this machine has {}", mib_text(machine_memory()));
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}, and {}; take fewer workers, {}{}", what, has,
                                  is_limited ? "a higher limit" : "a larger machine",
                                  options_.learns ? ", or --no-learning" : ""));
  }

  /// Reading how much memory is in use takes microseconds, and an action may take a gradient's.
  [[nodiscard]] Result<void> keep_limit() const {
    constexpr std::uint64_t kBetween = 32;
    if (options_.memory == Bytes(0) || world_.agenda.taken() % kBetween != 0) return ok();
    const Bytes used = resident_memory();
    if (used <= options_.memory) return ok();
    return too_large("the lab takes " + mib_text(used));
  }

  Result<void> show() {
    constexpr std::uint64_t kBetween = 1024;
    if (!options_.show || world_.agenda.taken() % kBetween != 0) return ok();
    if (options_.show(processes_->user().status())) return ok();
    return make_error(ErrorCode::kClosed, "interrupted");
  }

  TrainingOutcome outcome() const {
    TrainingOutcome outcome;
    outcome.job = processes_->user().status();
    outcome.virtual_s = seconds(world_.now().since_origin());
    outcome.steady_clocks_per_s = world_.pace->clocks_per_s();
    outcome.shards_us = world_.shards_us;
    outcome.clients_us = world_.clients_us;
    outcome.events = world_.agenda.taken() + world_.network->delivered();
    outcome.shard_bytes = processes_->shard_bytes();
    const double submitted_s = seconds(processes_->user().submitted_at().since_origin());
    outcome.submitted_s = submitted_s;
    for (const pb::WorkerStatus& worker : outcome.job.workers()) {
      const double since = worker.progress().seconds_to_first_iteration();
      if (since <= 0) continue;
      const double at = submitted_s + since;
      outcome.first_iteration_s =
          outcome.first_iteration_s > 0 ? std::min(outcome.first_iteration_s, at) : at;
    }
    constexpr double kUsPerS = 1e6;
    const std::vector<Pipe>& pipes = world_.topology->pipes();
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      const Pipe& pipe = pipes[i];
      if (pipe.messages == 0) continue;
      outcome.links.push_back(
          {i, pipe.name, pipe.bytes, pipe.messages, pipe.busy_us / (outcome.virtual_s * kUsPerS)});
    }
    outcome.coordinator = world_.topology->coordinator();
    outcome.servers = world_.topology->servers();
    outcome.losses = outages_->losses();
    return outcome;
  }

  const TrainingOptions& options_;
  std::unique_ptr<worker::JobAssets> assets_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ComputeTimes> times_;
  World world_;
  std::optional<Processes> processes_;
  std::optional<Outages> outages_;
  bool is_submitted_ = false;  // the job
};

}  // namespace

Result<TrainingOutcome> run_training(const TrainingOptions& options) {
  return Training(options).run();
}

Result<void> check_training(const TrainingOptions& options) {
  return Training(options).check();
}

}  // namespace taut::lab
