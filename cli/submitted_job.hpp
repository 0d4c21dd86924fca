#pragma once

#include <functional>
#include <utility>

#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"
#include "proto/session/control_client.hpp"

namespace taut::cli {

/// A job of a cluster that this process has started: it is submitted, followed, and saved at the
/// end.
/// Thread: one.
class SubmittedJob {
 public:
  /// Sleeps briefly and checks the daemons. Errors: one has ended, or the user interrupted.
  using LookAround = std::function<Result<void>()>;
  using Show = std::function<void(const pb::JobStatus&)>;

  SubmittedJob(ControlClient control, LookAround look_around)
      : control_(std::move(control)), look_around_(std::move(look_around)) {}

  /// The cluster's status, with only the job once it was submitted. A coordinator that does not
  /// answer may have died: the daemons are checked between short waits.
  /// Errors    timeout; those of LookAround
  [[nodiscard]] Result<pb::StatusReply> status();
  [[nodiscard]] Result<void> submit(const pb::Job& job);
  /// Shows the job until it has ended for good, and returns its last status. If the coordinator
  /// continues a failed job as another one, follows that one.
  [[nodiscard]] Result<pb::JobStatus> follow(const Show& show);
  /// Saves the job and ends it, within `limit` and while `may_wait`.
  void save(Duration limit, const std::function<bool()>& may_wait);
  /// Requests its end at once, if it runs.
  void discard();

  /// The client for requests about other jobs.
  [[nodiscard]] ControlClient& control() { return control_; }
  /// The newest status of the job.
  [[nodiscard]] const pb::JobStatus& seen() const { return seen_; }

 private:
  ControlClient control_;
  LookAround look_around_;
  JobId job_;
  pb::JobStatus seen_;
};

}  // namespace taut::cli
