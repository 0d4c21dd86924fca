#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "common/http/server.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/recent_rate.hpp"
#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/config/cluster_security.hpp"
#include "proto/node_check/node_examiner.hpp"
#include "proto/session/control_link.hpp"
#include "proto/session/record_sender.hpp"
#include "worker/engine/backend.hpp"
#include "worker/job_progress.hpp"
#include "worker/job_run.hpp"
#include "worker/progress.hpp"

namespace taut::worker {

/// A worker process: a connection to the coordinator, and one job at a time on a dedicated thread.
/// Heartbeats are sent from this thread, so that a busy worker does not appear dead.
/// Thread    main
class WorkerDaemon {
 public:
  /// Opens the device and the connection to the coordinator.
  /// rack      of this machine; empty: not known
  /// Errors    unavailable: the requested device does not exist; no key to join with
  [[nodiscard]] static Result<std::unique_ptr<WorkerDaemon>> start(const pb::ClusterConfig& config,
                                                                   const std::string& rack);
  ~WorkerDaemon();
  WorkerDaemon(const WorkerDaemon&) = delete;
  WorkerDaemon& operator=(const WorkerDaemon&) = delete;

  /// Runs until a stop signal arrives. `joined` is called once, when the coordinator has accepted.
  /// Errors    unavailable: the coordinator did not reply, or refused this worker; a device failed
  ///           permanently
  template <class Joined>
  [[nodiscard]] Result<void> run(const Joined& joined) {
    bool is_reported = false;
    while (true) {
      TAUT_TRY(const bool continues, step());
      if (!continues) return ok();
      if (!is_reported && link_->session().accepted()) {
        is_reported = true;
        TAUT_TRY(joined());
      }
    }
  }

  /// The address of /metrics, as bound; empty if not served.
  [[nodiscard]] std::string http_address() const { return metrics_ ? metrics_->address() : ""; }

 private:
  /// The running job, or the last one.
  struct Run {
    pb::WorkerJob job;
    TimePoint begun;
    RunOrders orders;
    ProgressBoard board;
    StateSaver saver;
    RecentRate rate;   // of images; the main thread's
    std::mutex mutex;  // guards the rest
    RunEnd end;
    bool recorded = false;    // its records no longer grow
    std::string lost_device;  // why no further job can be computed; empty: no device has failed
    std::thread thread;
  };

  WorkerDaemon(const pb::ClusterConfig& config, Security security)
      : config_(config),
        context_(std::move(security), io_threads(config)),
        records_(config.log().file()) {}
  [[nodiscard]] Result<bool> step();
  [[nodiscard]] Result<void> handle(const ControlEvent& event);
  void take_job(const pb::WorkerJob& job);
  void begin(const pb::WorkerJob& job);
  static void take_orders(const pb::WorkerJob& job, Run& run);
  void train(const pb::WorkerJob& job, Run& run);
  void end_run();
  void leave();
  [[nodiscard]] bool must_end();
  void record(Run& run);
  [[nodiscard]] std::string failed_device() const;
  [[nodiscard]] Result<void> end_without_device();
  void report();
  [[nodiscard]] pb::Progress progress_of(Run& run) const;
  [[nodiscard]] Result<void> start_http();
  [[nodiscard]] std::string scrape();
  [[nodiscard]] NodeSelf self() const;

  const pb::ClusterConfig config_;
  ZmqContext context_;
  std::vector<std::unique_ptr<Backend>> devices_;  // one or more
  std::unique_ptr<ControlLink> link_;
  std::unique_ptr<NodeExaminer> examiner_;
  std::unique_ptr<Run> run_;
  std::optional<pb::WorkerJob> next_job_;  // starts when the run has ended
  // The job and incarnation of each earlier run: a worker joins a job once per incarnation.
  std::set<std::pair<std::uint64_t, std::uint64_t>> ended_;
  RecordSender records_;
  bool is_drained_ = false;
  std::optional<TimePoint> leaves_by_;  // after a signal: ends at this time, drained or not
  bool reported_end_ = false;
  std::uint64_t reported_revision_ = 0;
  std::string reported_place_;      // of a worker that sums with others
  bool reported_measured_ = false;  // of a worker that measures for a choice of schemes
  std::mutex newest_mutex_;         // guards newest_ and load_
  pb::Progress newest_;             // for a scrape
  std::shared_ptr<const ClientLoad> load_;
  std::unique_ptr<http::Server> metrics_;  // last: its thread uses the rest
};

}  // namespace taut::worker
