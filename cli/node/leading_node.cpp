#include "cli/node/leading_node.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/checkpoint_paths.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/commands/training/train.hpp"
#include "cli/doctor/cluster_doctor.hpp"
#include "cli/doctor/job_needs.hpp"
#include "cli/doctor/node_facts.hpp"
#include "cli/node/node_address.hpp"
#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "cli/views/progress_display.hpp"
#include "cli/views/summary_view.hpp"
#include "common/files/file.hpp"
#include "common/keys/key_folder.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/config/cluster_config.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "proto/session/control_client.hpp"
#include "proto/state_word.hpp"
#include "proto/wire_version.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr double kControlWait_s = 10;
constexpr Duration kSaveRequestWait = std::chrono::milliseconds(500);
constexpr Duration kGrace = std::chrono::milliseconds(3500);
// After a run has ended, for the other nodes to notice that and end their daemons.
constexpr Duration kLeaveWithin = std::chrono::seconds(8);

/// Where this node listens: as the user or the engine names it, or as others reach it.
Result<std::string> address_of(const NodeOptions& options, const NodePlace& place) {
  if (!options.host.empty()) return numeric_address(options.host);
  if (place.count == 1) return std::string("127.0.0.1");
  if (place.leader.empty()) return own_address();
  return place.local_count < place.count ? address_for_others(place.leader)
                                         : numeric_address(place.leader);
}

/// Requests once for each job: the end of a running one, with a checkpoint, and that a waiting one
/// is held. Returns those that run.
/// asked    the jobs for which that is confirmed
std::vector<std::string> save_jobs(const pb::StatusReply& status, ControlClient& client,
                                   std::set<JobId>& asked) {
  std::vector<std::string> running;
  bool answers = true;
  for (const pb::JobStatus& job : status.jobs()) {
    if (has_ended(job.state())) continue;
    const JobId id(job.job());
    // A waiting job would start on the workers of one that is saved.
    const bool waits = job.state() == pb::SUBMITTED;
    if (!waits) running.push_back(fmt::format("job {}", job.job()));
    if (asked.contains(id) || !answers) continue;
    const auto done = waits ? client.hold(id, true) : client.stop(id, false);
    if (done) asked.insert(id);
    answers = done.has_value() || done.error().code != ErrorCode::kTimeout;
  }
  return running;
}

}  // namespace

LeadingNode::LeadingNode(const NodeOptions& options, const NodePlace& place, NodeShare share,
                         fs::path folder)
    : options_(options),
      place_(place),
      share_(std::move(share)),
      meeting_(std::move(folder), place.attempt),
      servers_(share_.servers * place.count),
      workers_(share_.workers * place.count) {}

Result<void> LeadingNode::check_daemons() {
  std::this_thread::sleep_for(kBetweenLooks);
  if (stop_signal() != 0) return make_error(ErrorCode::kClosed, "interrupted");
  return daemons_.check();
}

Result<void> LeadingNode::prepare_job() {
  if (options_.job_file.empty()) return ok();
  TrainOptions train;
  train.job_file = options_.job_file;
  train.job = options_.job;
  // If nodes differ in their devices, this number is corrected once all have joined.
  if (!train.job.workers) train.job.workers = workers_;
  TAUT_TRY(definition_, training_job(train));
  // In the run's folder, in which the next attempt looks for them.
  if (definition_.has_checkpoint()) definition_.mutable_checkpoint()->clear_folder();
  definition_.mutable_solver_param()->clear_snapshot_prefix();
  settle_checkpoint_paths(meeting_.folder() / "checkpoints", definition_);
  settle_last_checkpoint(definition_);
  return continue_from_checkpoint();
}

Result<void> LeadingNode::continue_from_checkpoint() {
  const fs::path& folder = meeting_.folder();
  std::error_code ignored;
  if (fs::exists(folder / "summary.json", ignored)) {
    return make_error(
        ErrorCode::kExists,
        fmt::format("the run in {} has ended; name another folder with --output", folder.string()));
  }
  const fs::path checkpoints = folder / "checkpoints";
  const auto newest = CheckpointReader::open_to_resume(checkpoints);
  if (!newest) {
    if (newest.error().code == ErrorCode::kNotFound) return ok();
    return newest.error();
  }
  definition_.set_resume(newest.value().folder().string());
  fmt::print("continues from {}\n", definition_.resume());
  return ok();
}

Result<void> LeadingNode::start_daemons() {
  const fs::path& folder = meeting_.folder();
  TAUT_TRY(const std::string address, address_of(options_, place_));
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return make_error(ErrorCode::kIo, fmt::format("{}: {}; name another folder with --output",
                                                  folder.string(), failed.message()));
  }
  TAUT_TRY(meeting_.clear());
  TAUT_TRY(keys_, RunKeys::make(meeting_.keys()));
  if (place_.count > 1 && keys_->folder() != meeting_.keys()) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{} does not keep files from other users, so the run's keys are "
                                  "not safe there; name another folder with --output",
                                  folder.string()));
  }
  daemons_ = DaemonGroup({.folder = folder, .keys = keys_->folder(), .shielded = true});
  if (!options_.job_file.empty()) {
    TAUT_TRY(write_file_atomically(folder / "job.textproto", to_text(definition_)));
  }
  DaemonGroup::Daemon coordinator{
      .name = "coordinator",
      .role = KeyRole::kServer,
      .config = common_config(options_, join_address(address, 0), folder.string())};
  pb::ServerConfig& server = *coordinator.config.mutable_server();
  server.set_name(coordinator.name);
  server.set_shards(0);
  server.mutable_coordinator()->set_state_folder("");
  server.mutable_coordinator()->set_run_folder(
      options_.job_file.empty() ? (folder / "runs").string() : std::string());
  TAUT_TRY(daemons_.start(std::move(coordinator)));
  TAUT_TRY(const std::string ready, daemons_.await_ready("coordinator"));
  coordinator_ = address_in(ready, "coordinator");
  TAUT_TRY(start_share(share_, options_, place_.rank, address,
                       common_config(options_, coordinator_, folder.string()), daemons_));
  TAUT_TRY(const Security security, user_security(keys_->folder()));
  TAUT_TRY(auto control, connect_control(coordinator_, kControlWait_s, security));
  job_ = std::make_unique<SubmittedJob>(std::move(control), [this] { return check_daemons(); });
  TAUT_TRY(meeting_.open(coordinator_));
  fmt::print("coordinator {0} (tautline top --coordinator {0})\n", coordinator_);
  std::fflush(stdout);
  return meeting_.join({.rank = 0,
                        .host = address,
                        .servers = share_.servers,
                        .workers = share_.workers,
                        .build = build_name()});
}

Result<void> LeadingNode::check_notices(const std::vector<NodeNotice>& notices) const {
  for (const NodeNotice& notice : notices) {
    if (notice.build == build_name()) continue;
    return make_error(ErrorCode::kMismatch,
                      fmt::format("node {} ({}) runs {}, this one {}: install the same on both",
                                  notice.rank, notice.host, notice.build, build_name()));
  }
  return ok();
}

Result<void> LeadingNode::await_nodes() {
  const TimePoint deadline = steady_now() + from_seconds(options_.wait_s);
  while (true) {
    TAUT_TRY(const auto notices, meeting_.notices());
    TAUT_TRY(check_notices(notices));
    TAUT_TRY(const pb::StatusReply status, job_->status());
    servers_ = 0;
    workers_ = 0;
    for (const NodeNotice& notice : notices) {
      servers_ += notice.servers;
      workers_ += notice.workers;
    }
    const auto servers = static_cast<std::uint32_t>(status.servers_size());
    const auto workers = static_cast<std::uint32_t>(status.workers_size());
    if (notices.size() == place_.count && servers >= servers_ && workers >= workers_) return ok();
    if (steady_now() > deadline) {
      std::vector<std::string> missing;
      for (std::uint32_t rank = 0; rank < place_.count; ++rank) {
        if (!std::ranges::binary_search(notices, rank, {}, &NodeNotice::rank)) {
          missing.push_back(std::to_string(rank));
        }
      }
      if (!missing.empty()) {
        return make_error(
            ErrorCode::kTimeout,
            fmt::format("after {:g} s {} of {} nodes have joined; ranks {} have not: they must see "
                        "{}, and reach {}",
                        options_.wait_s, notices.size(), place_.count, some_of(missing),
                        meeting_.folder().string(), coordinator_));
      }
      return make_error(
          ErrorCode::kTimeout,
          fmt::format("after {:g} s {} of {} servers and {} of {} workers have joined; their logs "
                      "are in {}",
                      options_.wait_s, servers, servers_, workers, workers_,
                      meeting_.folder().string()));
    }
    TAUT_TRY(check_daemons());
  }
}

std::string LeadingNode::how_to_continue() const {
  if (job_ == nullptr || job_->seen().checkpoints().empty()) return {};
  return fmt::format("\n  the same command continues from {}",
                     job_->seen().checkpoints().rbegin()->folder());
}

Result<int> LeadingNode::train() {
  if (!options_.job.workers) definition_.set_workers(workers_);
  fmt::print("{}: {}, {}, {}, run folder {}\n", definition_.name(), counted(place_.count, "node"),
             counted(servers_, "server"), counted(definition_.workers(), "worker"),
             meeting_.folder().string());
  std::fflush(stdout);
  TAUT_TRY(job_->submit(definition_));
  ProgressDisplay display(words_of(definition_));
  const auto ended = job_->follow([&](const pb::JobStatus& job) { display.show(job); });
  if (!ended && stop_signal() != 0) {
    fmt::print(stderr, "tautline node: signal {}: saving before it ends\n", stop_signal());
    job_->save(from_seconds(options_.save_s),
               [this] { return !stop_is_urgent() && daemons_.check().has_value(); });
    return make_error(ErrorCode::kClosed,
                      fmt::format("ended by signal {}{}", stop_signal(), how_to_continue()));
  }
  TAUT_TRY(const pb::JobStatus status, ended);
  const RunSummary summary{.job = status,
                           .words = words_of(definition_),
                           .servers = servers_,
                           .shards = options_.shards,
                           .wall_s = seconds(steady_now() - began_),
                           .folder = meeting_.folder().string(),
                           .replaced = daemons_.replaced()};
  for (const std::string& line : summary_lines(summary)) fmt::print("{}\n", line);
  std::fflush(stdout);
  if (status.state() != pb::DONE) {
    return invalid(fmt::format("job {}: {}{}", state_word(status.state()), status.message(),
                               how_to_continue()));
  }
  TAUT_TRY(write_file_atomically(meeting_.folder() / "summary.json", summary_json(summary)));
  return kFine;
}

Result<void> LeadingNode::examine_nodes() {
  JobNeeds needs;
  if (!options_.job_file.empty()) {
    TAUT_TRY(needs, needs_of(definition_));
  }
  needs.paths.push_back({NeededPath::Use::kShared, meeting_.folder().string()});
  TAUT_TRY(const Security security, user_security(keys_->folder()));
  TAUT_TRY(auto client, connect_control(coordinator_, kControlWait_s, security));
  TAUT_TRY(const ClusterFacts cluster,
           examine_cluster(client, needs, kUsualTransferBytes, kExamineWait_s,
                           [this] { return check_daemons(); }));
  const Findings findings = judge_cluster(cluster, needs, build_name());
  for (const std::string& line : findings_lines(findings)) fmt::print("{}\n", line);
  std::fflush(stdout);
  if (worst(findings) != Verdict::kTrouble) return ok();
  return invalid(
      "the nodes cannot train this job as they are: see above; without --check it is "
      "tried all the same");
}

Result<int> LeadingNode::serve() {
  fmt::print("{}, {}, {}: tautline submit JOB --coordinator {} starts a job on them\n",
             counted(place_.count, "node"), counted(servers_, "server"),
             counted(workers_, "worker"), coordinator_);
  std::fflush(stdout);
  while (true) {
    const auto looked = check_daemons();
    if (looked) continue;
    if (stop_signal() == 0) return looked.error();
    fmt::print(stderr, "tautline node: signal {}: saving the jobs that run before it ends\n",
               stop_signal());
    TAUT_TRY(save_submitted());
    return make_error(ErrorCode::kClosed, fmt::format("ended by signal {}", stop_signal()));
  }
}

Result<void> LeadingNode::save_submitted() {
  const TimePoint until = steady_now() + from_seconds(options_.save_s);
  ControlClient& client = job_->control();
  client.set_deadline(kSaveRequestWait);
  std::set<JobId> asked;
  std::vector<std::string> running;
  while (steady_now() < until && !stop_is_urgent()) {
    const auto status = client.status();
    // A coordinator that is busy is asked again.
    if (!status && status.error().code != ErrorCode::kTimeout) return status.error();
    if (status) {
      running = save_jobs(status.value(), client, asked);
      if (running.empty()) return ok();
    }
    TAUT_TRY(daemons_.check());
    std::this_thread::sleep_for(kBetweenLooks);
  }
  fmt::print(stderr, "tautline node: not saved before it ends: {}\n",
             running.empty() ? "any job that runs" : fmt::format("{}", fmt::join(running, ", ")));
  return ok();
}

Result<int> LeadingNode::run() {
  TAUT_TRY(prepare_job());
  TAUT_TRY(start_daemons());
  TAUT_TRY(await_nodes());
  if (options_.check) {
    TAUT_TRY(examine_nodes());
  }
  return options_.job_file.empty() ? serve() : train();
}

void LeadingNode::end(int status) {
  const bool others_wait = place_.count > 1 && !place_.attempt.empty();
  if (coordinator_.empty() && !others_wait) return;
  if (job_ != nullptr) job_->discard();
  if (const auto closed = meeting_.close(status); !closed) {
    fmt::print(stderr, "tautline node: {}\n", closed.error().message);
  }
  const bool has_others = !coordinator_.empty() && place_.count > 1;
  const TimePoint until = steady_now() + (has_others ? kLeaveWithin : Duration(0));
  while (steady_now() < until && !stop_is_urgent()) {
    const auto notices = meeting_.notices();
    if (!notices || notices.value().size() <= 1) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  for (const std::string& name : daemons_.stop(kGrace)) {
    fmt::print(stderr, "tautline node: {} did not end within {:g} s and was killed\n", name,
               seconds(kGrace));
  }
}

}  // namespace taut::cli
