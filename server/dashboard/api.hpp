#pragma once

#include <functional>
#include <string>

#include "common/http/request.hpp"
#include "common/result.hpp"
#include "proto/control.pb.h"
#include "server/dashboard/job_history.hpp"

namespace taut::dashboard {

/// Sends a request to the coordinator, as a client would.
using Ask = std::function<Result<pb::ControlMessage>(const pb::ControlMessage&)>;

/// Answers requests to the dashboard's addresses, without any socket.
///
///   GET  /                       the page, and its parts (assets.cpp)
///   GET  /api/status             every job in brief, the shown one in full
///   GET  /api/events             the same as a stream, with the history first
///   GET  /api/jobs/N             job N in full, with its history
///   POST /api/jobs/N/slack       {"slack": 3} or {"slack": null} for none
///   POST /api/jobs/N/stop        {}
///   POST /api/trace              {"on": true}
///
/// Thread    one
class Api {
 public:
  /// now  seconds since 1970
  Api(Ask ask, std::function<double()> now) : ask_(std::move(ask)), now_(std::move(now)) {}

  [[nodiscard]] http::Response answer(const http::Request& request);

  /// Records the job's figures. Returns the event for open streams; empty if the
  /// coordinator did not answer.
  [[nodiscard]] std::string tick();

 private:
  [[nodiscard]] Result<pb::StatusReply> status(std::uint64_t job = 0);
  [[nodiscard]] http::Response status_response(std::uint64_t job);
  [[nodiscard]] http::Response stream_response();
  [[nodiscard]] http::Response command(const http::Request& request);
  [[nodiscard]] http::Response job_command(std::uint64_t job, const std::string& word,
                                           const std::string& body);
  [[nodiscard]] http::Response carry_out(const pb::ControlMessage& message);

  const Ask ask_;
  const std::function<double()> now_;
  JobHistory history_;
};

}  // namespace taut::dashboard
