#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/net/endpoint.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"
#include "proto/session/coordinator_addresses.hpp"

namespace taut {

/// Asks the coordinator and waits for its answers. Each request is sent again until it is answered
/// or its deadline passes; meanwhile the coordinator may be restarted, or another one take over.
/// Thread: one.
class ControlClient {
 public:
  /// Connects and sends the hello.
  /// address  of all processes that could coordinate, separated by commas
  /// Errors    timeout: no answer from there; mismatch: a coordinator of another wire version;
  ///           unavailable: it does not accept this side's key
  [[nodiscard]] static Result<ControlClient> connect(std::unique_ptr<Endpoint> endpoint,
                                                     const std::string& address, Duration deadline);

  // Errors of each: timeout; invalid, with the coordinator's own reason.
  /// Submits a job. Returns its number, and what it waits for.
  /// origin  where it is submitted from, for the job's folder
  [[nodiscard]] Result<pb::SubmitReply> submit(const pb::Job& definition,
                                               const pb::RunOrigin& origin = {});
  /// Every job, or one. Errors: also the coordinator does not know the job.
  [[nodiscard]] Result<pb::StatusReply> status(JobId job = JobId());
  /// One job with its definition. Errors: as status.
  [[nodiscard]] Result<pb::JobStatus> job(JobId job);
  /// The coordinator's wall clock, in seconds since 1970; 0 if it does not report it.
  [[nodiscard]] Result<double> time();
  /// Has every server and worker examined; repeated with the same request, asks for its progress.
  /// Errors    also another check is running
  [[nodiscard]] Result<pb::CheckNodesReply> check_nodes(const pb::CheckNodes& check);
  /// A part of a process's log of a job; an empty name: the coordinator's lines.
  [[nodiscard]] Result<pb::LogReply> log(JobId job, const std::string& process,
                                         std::uint64_t offset);
  /// Sets a job's slack. Returns what was done, as one line.
  [[nodiscard]] Result<std::string> set_slack(JobId job, Slack slack);
  /// discard  at once; otherwise a checkpoint is written first
  [[nodiscard]] Result<std::string> stop(JobId job, bool discard);
  /// Saves a training job with external members and ends it as done.
  [[nodiscard]] Result<std::string> finish(JobId job);
  /// Moves a process's work to others; it then ends.
  [[nodiscard]] Result<std::string> drain(const std::string& name);
  /// Holds back a job that waits, or lets it start.
  [[nodiscard]] Result<std::string> hold(JobId job, bool held);
  [[nodiscard]] Result<std::string> set_priority(JobId job, std::int32_t priority);
  /// Orders a checkpoint, of the running job if none is named; the reply names the job.
  [[nodiscard]] Result<pb::CommandReply> checkpoint(JobId job);
  /// Begins or ends every process's timeline.
  [[nodiscard]] Result<std::string> set_trace(bool on);

  /// How long each request may take from now on.
  void set_deadline(Duration deadline) { deadline_ = deadline; }

 private:
  ControlClient(std::unique_ptr<Endpoint> endpoint, PeerId peer, CoordinatorAddresses addresses,
                Duration deadline);

  /// The answer to `request`. Errors: timeout, mismatch.
  [[nodiscard]] Result<pb::ControlMessage> ask(pb::ControlMessage request);
  [[nodiscard]] Result<pb::CommandReply> command(pb::ControlMessage request);
  [[nodiscard]] Result<std::string> command_line(pb::ControlMessage request);
  /// The next message that answers `number`; false once `until` has passed, or another address must
  /// be asked.
  [[nodiscard]] Result<bool> await(std::uint64_t number, TimePoint until,
                                   pb::ControlMessage& answer);
  void send(const pb::ControlMessage& message);
  [[nodiscard]] Result<void> move_on();
  [[nodiscard]] pb::ControlMessage hello();

  std::unique_ptr<Endpoint> endpoint_;
  PeerId peer_;
  CoordinatorAddresses addresses_;
  std::optional<std::string> redirected_;  // to a leader, or, if empty, to any other address
  Duration deadline_;
  std::uint64_t session_;
  std::uint64_t next_request_ = 1;
  bool was_answered_ = false;
  bool is_there_ = false;  // it has greeted this client since the request was first sent
  std::string unsaved_;    // and why it could not save its state then
};

/// Connects over ZeroMQ to "host:port", or to one of several.
[[nodiscard]] Result<ControlClient> connect_control(const std::string& address, double wait_s,
                                                    const Security& security);

}  // namespace taut
