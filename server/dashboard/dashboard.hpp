#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/http/server.hpp"
#include "common/result.hpp"
#include "proto/control.pb.h"
#include "server/dashboard/api.hpp"
#include "server/dashboard/server_metrics.hpp"

namespace taut::dashboard {

/// The HTTP side of the process that hosts the coordinator: the page, its events, /api, /metrics.
/// While no page is open it records the jobs every few seconds, so that a page that is opened later
/// can show their history.
/// Thread    any
class Dashboard {
 public:
  struct Options {
    http::Server::Options http;  // the timer is the dashboard's
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
  [[nodiscard]] http::Response scrape();
  void tick(std::size_t streams);

  const std::string name_;
  const Ask ask_;
  const std::function<ServerFigures()> figures_;
  Api api_;
  unsigned quiet_ticks_ = 0;
  std::unique_ptr<http::Server> server_;  // last: its thread uses the rest
};

}  // namespace taut::dashboard
