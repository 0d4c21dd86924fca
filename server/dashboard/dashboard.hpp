#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/http/server.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "proto/control.pb.h"
#include "server/dashboard/api.hpp"
#include "server/dashboard/server_metrics.hpp"

namespace taut::dashboard {

/// The HTTP side of the process that hosts the coordinator: the page, its events, /api, /metrics.
/// While no page is open it records the jobs every few seconds, so that a page that is opened later
/// can show their history. Requests to the coordinator are made on a second thread: while it does
/// not answer, the page's files are served and /metrics has what is known without it.
/// Thread    any
class Dashboard {
 public:
  struct Options {
    http::Server::Options http;  // the dashboard sets its timer
    std::string server;          // this process's name
  };
  /// figures  of this process, for /metrics
  /// Errors   as http::Server::start
  [[nodiscard]] static Result<std::unique_ptr<Dashboard>> start(
      const Options& options, Ask ask, std::function<ServerFigures()> figures);

  /// The address as bound.
  [[nodiscard]] const std::string& address() const { return server_->address(); }

 private:
  Dashboard(const Options& options, Ask ask, std::function<ServerFigures()> figures);
  [[nodiscard]] http::Response answer(const http::Request& request);
  /// Answers a request that the coordinator has not answered in time; on the connections' thread.
  [[nodiscard]] http::Response late(const http::Request& request);
  /// status  of the cluster; nullptr if unknown
  [[nodiscard]] http::Response scrape(const pb::StatusReply* status) const;
  [[nodiscard]] Result<pb::ControlMessage> ask(const pb::ControlMessage& message);
  void tick(std::size_t streams);

  const std::string name_;
  const Ask ask_;
  const std::function<ServerFigures()> figures_;
  std::mutex mutex_;                       // guards the next two
  std::optional<pb::StatusReply> status_;  // the coordinator's last one
  TimePoint status_at_;
  Api api_;  // used by the server's second thread, like the next one
  unsigned quiet_ticks_ = 0;
  std::unique_ptr<http::Server> server_;  // last, since its threads use the others
};

}  // namespace taut::dashboard
