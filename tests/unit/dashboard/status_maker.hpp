#pragma once

#include <string>

#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut::dashboard {

/// A running job of this many workers, at clocks 100, 101, 102, 103 and again from 100.
inline pb::StatusReply make_status(int workers, int servers = 1, int shards = 1) {
  pb::StatusReply status;
  pb::JobStatus& job = *status.add_jobs();
  job.set_job(7);
  job.set_name("lenet");
  job.set_state(pb::RUNNING);
  job.set_mode("SSP");
  job.set_slack(4);
  job.set_max_iter(1000);
  job.set_running_s(12.5);
  job.set_rate(1000.0 * workers);
  job.set_rate_unit("images/s");
  for (int i = 0; i < workers; ++i) {
    pb::WorkerStatus& worker = *job.add_workers();
    worker.set_name("worker" + std::to_string(i));
    worker.set_worker(static_cast<std::uint32_t>(i));
    worker.set_state(pb::PROCESS_RUNNING);
    pb::Progress& progress = *worker.mutable_progress();
    progress.set_job(7);
    progress.set_clock(100 + i % 4);
    progress.set_loss(0.5);
    progress.set_images(6400);
    progress.set_images_per_second(1000);
    progress.set_compute_s(100.25);
    progress.set_wait_s(10.5);
    for (int staleness = 0; staleness < 4; ++staleness) {
      pb::StalenessBin& bin = *progress.add_staleness();
      bin.set_staleness(staleness);
      bin.set_reads(25);
    }
    *status.add_workers() = worker;
  }
  for (int i = 0; i < servers; ++i) {
    pb::ServerStatus& server = *status.add_servers();
    server.set_name("server" + std::to_string(i));
    server.set_state(pb::PROCESS_LIVE);
    server.set_shards(static_cast<std::uint32_t>(shards));
    for (int shard = 0; shard < shards; ++shard) server.add_loads()->set_busy_s(1.5);
  }
  return status;
}

}  // namespace taut::dashboard
