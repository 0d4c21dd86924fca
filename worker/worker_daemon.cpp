#include "worker/worker_daemon.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <random>
#include <utility>

#include "common/log.hpp"
#include "common/metrics/serve_metrics.hpp"
#include "common/system/host_name.hpp"
#include "common/system/memory.hpp"
#include "common/system/stop_signal.hpp"
#include "common/timeline.hpp"
#include "proto/config/cluster_config.hpp"
#include "proto/config/cluster_security.hpp"
#include "proto/session/timeline_switch.hpp"
#include "proto/wire_version.hpp"
#include "worker/device/devices.hpp"
#include "worker/worker_metrics.hpp"

namespace taut::worker {
namespace {

constexpr Duration kStep{100'000};

}  // namespace

Result<std::unique_ptr<WorkerDaemon>> WorkerDaemon::start(const pb::ClusterConfig& config,
                                                          const std::string& rack) {
  const pb::WorkerConfig& settings = config.worker();
  TAUT_TRY(Security security, daemon_security(config, settings.name(), KeyRole::kWorker));
  std::unique_ptr<WorkerDaemon> daemon(new WorkerDaemon(config, std::move(security)));
  TAUT_TRY(daemon->devices_, open_devices(settings));

  ControlIdentity identity;
  identity.role = pb::ROLE_WORKER;
  identity.name = settings.name();
  std::random_device source;
  identity.session = (std::uint64_t{source()} << 32U) | source();
  identity.device = description_of(daemon->devices_);
  identity.host = rack.empty() ? host_name() : fmt::format("{}/{}", rack, host_name());
  identity.data_security = data_security(config);
  identity.memory_is_own = settings.memory() > 0;
  identity.memory_bytes = identity.memory_is_own ? settings.memory() : machine_memory().value();
  identity.devices = static_cast<std::uint32_t>(std::ranges::count_if(
      daemon->devices_, [](const auto& device) { return !device->shares_host_memory(); }));
  ControlTimings timings;
  timings.heartbeat_interval = from_seconds(config.heartbeat_interval_s());
  timings.wait_limit = from_seconds(config.start_wait_s());
  TAUT_TRY(daemon->link_, ControlLink::open(daemon->context_.make_endpoint(),
                                            config.coordinator_address(), identity, timings));
  daemon->examiner_ = std::make_unique<NodeExaminer>(daemon->context_, daemon->self());
  TAUT_TRY(daemon->start_http());
  return daemon;
}

WorkerDaemon::~WorkerDaemon() {
  metrics_.reset();
  end_run();
}

Result<void> WorkerDaemon::start_http() {
  if (!config_.has_http()) return ok();
  const pb::HttpConfig& settings = config_.http();
  TAUT_TRY(check_http_address(settings.metrics(), config_));
  http::Server::Options options;
  options.address = settings.metrics();
  options.hosts.assign(settings.allowed_hosts().begin(), settings.allowed_hosts().end());
  TAUT_TRY(options.secret, http_secret(config_));
  if (settings.open_metrics()) options.open_paths = {metrics::kPath};
  auto started = metrics::serve(std::move(options), [this] { return scrape(); });
  if (!started) {
    Error error = started.error();
    error.message += "; choose another with http.metrics in the config";
    return error;
  }
  metrics_ = std::move(started.value());
  log::info("http://{}/metrics", metrics_->address());
  return ok();
}

NodeSelf WorkerDaemon::self() const {
  NodeSelf self;
  self.coordinator = config_.coordinator_address();
  self.insecure = config_.insecure();
  self.keys_folder = config_.keys();
  self.add_memory = [this](pb::NodeFacts& facts) {
    if (devices_.front()->shares_host_memory()) return;
    try {
      if (const auto use = memory_use_of(devices_)) {
        facts.set_device_free_bytes(use->free.value());
      }
    } catch (const DeviceError& failure) {
      log::debug("examined: {}", failure.what());
    }
  };
  return self;
}

/// Thread    the HTTP server's
std::string WorkerDaemon::scrape() {
  const std::string& name = config_.worker().name();
  pb::Progress newest;
  std::shared_ptr<const ClientLoad> load;
  {
    std::scoped_lock lock(newest_mutex_);
    newest = newest_;
    load = load_;
  }
  metrics::Scrape scrape;
  scrape.build_info(build_name(), "worker", name);
  scrape.process();
  add_progress(scrape, name, newest);
  try {
    if (const auto use = memory_use_of(devices_)) {
      add_device(scrape, name, *use, Bytes(config_.worker().device_memory_budget()));
    }
  } catch (const DeviceError& failure) {
    // A failed device ends its job with a separate line.
    log::debug("/metrics: {}", failure.what());
  }
  if (load) {
    ClientFigures figures = load->read();
    if (newest.finished()) {
      // Updates in flight when a run failed are not in flight any more.
      for (auto& [shard, under_way] : figures.under_way) under_way = {};
      figures.updates_waiting = 0;
    }
    add_client(scrape, name, newest.job(), figures);
  }
  return scrape.text();
}

void WorkerDaemon::end_run() {
  if (!run_) return;
  run_->orders.stop = true;
  run_->thread.join();
  record(*run_);
  run_.reset();
}

/// Leaves: the job continues without this worker from the end of its current clock on.
void WorkerDaemon::leave() {
  link_->leave();
  if (run_) run_->orders.leave = true;
}

/// Whether the process must end now. With a notice period, a stop signal first lets the worker hand
/// over its work.
bool WorkerDaemon::must_end() {
  if (is_drained_) return true;
  if (stop_signal() == 0) return false;
  const Duration notice = from_seconds(config_.preemption_notice_s());
  const bool has_notice = stop_signal() == SIGTERM && notice > Duration::zero();
  if (!has_notice || stop_is_urgent() || !link_->session().accepted()) return true;
  if (!leaves_by_) {
    log::info("leaving within {:g} s", seconds(notice));
    leaves_by_ = steady_now() + notice;
    leave();
  }
  return steady_now() >= *leaves_by_;
}

Result<bool> WorkerDaemon::step() {
  if (must_end()) {
    log::info("{}", is_drained_ ? "drained: no job needs this worker" : "stopping");
    // Servers refuse its updates once they are notified: that must not count as the job's error.
    if (run_) run_->orders.stop = true;
    link_->say_goodbye(is_drained_ ? "it was drained" : "the worker was stopped");
    end_run();
    return false;
  }
  report();
  TAUT_TRY(end_without_device());
  if (next_job_ && reported_end_) begin(*std::exchange(next_job_, std::nullopt));
  timeline::flush(steady_now());
  for (const ControlEvent& event : link_->step(kStep)) {
    TAUT_TRY(handle(event));
  }
  return true;
}

Result<void> WorkerDaemon::handle(const ControlEvent& event) {
  using namespace control_event;
  if (const auto* job = std::get_if<pb::WorkerJob>(&event)) {
    take_job(*job);
  } else if (std::holds_alternative<Accepted>(event)) {
    log::info("joined the coordinator at {}", config_.coordinator_address());
  } else if (const auto* refused = std::get_if<Refused>(&event)) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the coordinator at {} refuses this worker: {}",
                                  config_.coordinator_address(), refused->reason));
  } else if (const auto* trace = std::get_if<Trace>(&event)) {
    switch_timeline(trace->on, config_.records(), config_.worker().name());
  } else if (const auto* recorded = std::get_if<Recorded>(&event)) {
    records_.take(recorded->marks);
  } else if (const auto* check = std::get_if<Check>(&event)) {
    examiner_->begin(check->check, check->secret);
  } else if (std::holds_alternative<Leave>(event)) {
    log::info("drained by request: leaving at the end of a clock");
    leave();
  } else if (std::holds_alternative<Drained>(event)) {
    is_drained_ = true;
  } else if (const auto* lost = std::get_if<DeclaredLost>(&event)) {
    log::warn("{}", lost->reason);
    if (run_) run_->orders.stop = true;
    next_job_.reset();
  } else if (const auto* unreachable = std::get_if<Unreachable>(&event)) {
    return make_error(ErrorCode::kTimeout,
                      fmt::format("no coordinator at {}: {}", config_.coordinator_address(),
                                  unreachable->reason));
  }
  return ok();
}

void WorkerDaemon::take_job(const pb::WorkerJob& job) {
  const bool same =
      run_ && run_->job.job() == job.job() && run_->job.incarnation() == job.incarnation();
  // Sent for a job that has ended or continues without this worker, which may have another job.
  const bool only_stops = job.stop() && !job.has_definition();
  if (only_stops && !same) return;
  if (same) {
    std::scoped_lock lock(run_->mutex);
    // Such a stop replies to a report and has the revision that follows the report's: if it were
    // reported in turn, the two would be sent back and forth until the run has ended.
    if (!only_stops) {
      log::set_epoch(static_cast<std::int64_t>(job.epoch()));
      take_orders(job, *run_);
      // A repeated older state must not lower the revision.
      run_->job.set_revision(std::max(run_->job.revision(), job.revision()));
    }
    if (job.replicated()) run_->orders.moves.post(shard_addresses(job));
    if (job.leaves() && !run_->orders.leave.exchange(true)) {
      log::info("job {}: leaving it at the end of a clock", job.job());
    }
    if (job.stop() && !run_->orders.stop.exchange(true)) {
      log::info("job {}: stopping: {}", job.job(), job.stop_reason());
    }
    return;
  }
  // The coordinator may still send new orders to a member that has finished.
  if (ended_.contains({job.job(), job.incarnation()})) return;
  if (run_ && !reported_end_) {
    // A run may take long to end, and heartbeats must continue meanwhile.
    if (!next_job_) {
      log::info("job {}: begins when the run of job {} has ended", job.job(), run_->job.job());
    }
    run_->orders.stop = true;
    next_job_ = job;
    return;
  }
  begin(job);
}

/// REQUIRES: the last run has ended, or there was none
void WorkerDaemon::begin(const pb::WorkerJob& job) {
  log::set_epoch(static_cast<std::int64_t>(job.epoch()));
  if (run_) ended_.emplace(run_->job.job(), run_->job.incarnation());
  end_run();
  records_.begin(JobId(job.job()));
  reported_end_ = false;
  run_ = std::make_unique<Run>();
  run_->job = job;
  run_->begun = steady_now();
  take_orders(job, *run_);
  if (job.stop()) run_->orders.stop = true;
  if (link_->session().leaves() || job.leaves()) run_->orders.leave = true;
  log::info("job {}: member {}, share {} of {}, from clock {}", job.job(), job.worker(), job.slot(),
            job.slots(), job.start_clock());
  run_->thread = std::thread([this, run = run_.get(), job] { train(job, *run); });
}

/// Takes the orders that the coordinator may repeat in every state of a job.
void WorkerDaemon::take_orders(const pb::WorkerJob& job, Run& run) {
  run.orders.shares.take(job);
  run.orders.last_clocks.take(job);
  run.orders.ranks.post(job);
  run.orders.choice.post(job);
  run.orders.evaluates = job.evaluates();
  if (job.has_checkpoint()) run.saver.order(job.checkpoint());
}

/// Trains to the job's end. Thread: the run's.
void WorkerDaemon::train(const pb::WorkerJob& job, Run& run) {
  std::string error;
  JobOutcome outcome;
  try {
    std::vector<Backend*> devices;
    for (const auto& device : devices_) devices.push_back(device.get());
    auto ended = run_job(job, devices, context_, config_, run.orders, run.board, run.saver);
    if (ended) {
      outcome = ended.value();
    } else if (!run.orders.stop) {
      error = ended.error().message;
    }
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  if (!error.empty()) log::error("job {}: {}", job.job(), error);
  const std::string lost = error.empty() ? std::string() : failed_device();
  {
    std::scoped_lock lock(run.mutex);
    run.end.finished = true;
    run.lost_device = lost;
    run.end.error = error;
    run.end.outcome = outcome;
  }
  link_->wake();
}

/// The error of a device that can no longer compute; empty if all devices work.
std::string WorkerDaemon::failed_device() const {
  try {
    for (const auto& device : devices_) device->check_usable();
  } catch (const std::exception& failure) {
    return failure.what();
  }
  return {};
}

/// Ends the process if a device has failed: it cannot recover within the process, so the next job
/// would fail too. The program that started the process may start it again.
Result<void> WorkerDaemon::end_without_device() {
  std::string lost;
  if (run_) {
    std::scoped_lock lock(run_->mutex);
    lost = run_->lost_device;
  }
  if (lost.empty()) return ok();
  report();
  (void)link_->step(kStep);
  link_->say_goodbye("its device has failed");
  end_run();
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("the device has failed, so this worker ends: {}", lost));
}

pb::Progress WorkerDaemon::progress_of(Run& run) const {
  std::scoped_lock lock(run.mutex);
  pb::Progress progress =
      worker::progress_of(run.job, run.begun, run.board, run.end, run.rate, steady_now());
  run.orders.shares.report(progress);
  run.orders.last_clocks.report(progress);
  run.orders.ranks.report(progress);
  run.orders.choice.report(progress);
  if (auto part = run.saver.part(); part.number() > 0) {
    *progress.mutable_checkpoint() = std::move(part);
  }
  return progress;
}

/// Offers the files that the run writes to the coordinator.
void WorkerDaemon::record(Run& run) {
  const JobId job(run.job.job());
  if (const auto file = run.board.metrics_file(); !file.empty()) {
    records_.set_file(job, pb::RecordPart::METRICS, file);
    records_.set_file(job, pb::RecordPart::TESTS, file.parent_path() / "tests.csv");
  }
  std::scoped_lock lock(run.mutex);
  if (run.end.finished && !std::exchange(run.recorded, true)) records_.end(job);
}

void WorkerDaemon::report() {
  pb::Heartbeat content;
  if (run_) record(*run_);
  records_.add_parts(content);
  examiner_->add_facts(content);
  if (!run_) {
    link_->report(std::move(content), false);
    return;
  }
  *content.mutable_progress() = progress_of(*run_);
  if (metrics_) {
    std::scoped_lock lock(newest_mutex_);
    newest_ = content.progress();
    load_ = run_->board.load();
  }
  // Reports that the coordinator waits for are sent at once; the rest with the next heartbeat.
  const bool ended = content.progress().finished() || content.progress().left();
  std::string place = content.progress().rank_place().SerializeAsString();
  const bool measured = content.progress().has_measured();
  const bool news = (ended && !reported_end_) ||
                    reported_revision_ != content.progress().revision() ||
                    reported_place_ != place || reported_measured_ != measured;
  reported_place_ = std::move(place);
  reported_measured_ = measured;
  reported_end_ = ended;
  reported_revision_ = content.progress().revision();
  link_->report(std::move(content), news);
}

}  // namespace taut::worker
