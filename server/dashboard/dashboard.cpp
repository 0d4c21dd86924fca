#include "server/dashboard/dashboard.hpp"

#include <atomic>
#include <utility>

#include "common/metrics/metrics.hpp"
#include "common/unix_time.hpp"
#include "proto/wire_version.hpp"
#include "server/dashboard/pausing_ask.hpp"
#include "server/dashboard/server_metrics.hpp"

namespace taut::dashboard {
namespace {

constexpr Duration kTick{500'000};
constexpr unsigned kQuietTicks = 4;   // ticks between two records while no page is open
constexpr Duration kOld{10'000'000};  // after this, the cluster's last known state is not shown

}  // namespace

Dashboard::Dashboard(const Options& options, Ask ask, std::function<ServerFigures()> figures)
    : name_(options.server),
      ask_(std::move(ask)),
      figures_(std::move(figures)),
      api_([this](const pb::ControlMessage& message) { return this->ask(message); }, unix_time_s) {}

Result<std::unique_ptr<Dashboard>> Dashboard::start(const Options& options, Ask ask,
                                                    std::function<ServerFigures()> figures) {
  std::unique_ptr<Dashboard> dashboard(
      new Dashboard(options, with_pauses(std::move(ask), steady_now), std::move(figures)));
  http::Server::Options serve = options.http;
  serve.tick = kTick;
  // The timer does nothing until the server is assigned.
  auto ready = std::make_shared<std::atomic<bool>>(false);
  serve.timer = [self = dashboard.get(), ready](std::size_t streams) {
    if (*ready) self->tick(streams);
  };
  serve.waits = [](const http::Request& request) {
    return request.path == metrics::kPath || request.path.starts_with("/api/");
  };
  serve.late = [self = dashboard.get()](const http::Request& request) {
    return self->late(request);
  };
  TAUT_TRY(
      dashboard->server_,
      http::Server::start(std::move(serve), [self = dashboard.get()](const http::Request& request) {
        return self->answer(request);
      }));
  *ready = true;
  return dashboard;
}

Result<pb::ControlMessage> Dashboard::ask(const pb::ControlMessage& message) {
  auto reply = ask_(message);
  if (reply && reply.value().has_status_reply() && message.status_request().job() == 0) {
    const std::scoped_lock lock(mutex_);
    status_ = reply.value().status_reply();
    status_at_ = steady_now();
  }
  return reply;
}

http::Response Dashboard::answer(const http::Request& request) {
  if (request.path != metrics::kPath) return api_.answer(request);
  if (request.method != "GET" && request.method != "HEAD") {
    http::Response refused = http::text_response(405, "this address answers GET, HEAD");
    refused.allow = "GET, HEAD";
    return refused;
  }
  pb::ControlMessage message;
  message.mutable_status_request();
  const auto reply = ask(message);
  return scrape(reply ? &reply.value().status_reply() : nullptr);
}

http::Response Dashboard::late(const http::Request& request) {
  if (request.path != metrics::kPath) {
    return http::json_response(503,
                               "{\"error\":\"the coordinator has not answered; what was requested "
                               "may still be done\"}\n");
  }
  std::optional<pb::StatusReply> known;
  {
    const std::scoped_lock lock(mutex_);
    if (steady_now() - status_at_ < kOld) known = status_;
  }
  return scrape(known ? &*known : nullptr);
}

http::Response Dashboard::scrape(const pb::StatusReply* status) const {
  metrics::Scrape scrape;
  scrape.build_info(build_name(), "server", name_);
  scrape.process();
  add_server(scrape, name_, figures_());
  if (status != nullptr) add_cluster(scrape, *status);
  http::Response scraped;
  scraped.type = metrics::kTextType;
  scraped.body = scrape.text();
  return scraped;
}

void Dashboard::tick(std::size_t streams) {
  quiet_ticks_ = streams > 0 ? kQuietTicks : quiet_ticks_ + 1;
  if (quiet_ticks_ < kQuietTicks) return;
  quiet_ticks_ = 0;
  const std::string event = api_.tick();
  if (streams > 0 && !event.empty()) server_->publish(event);
}

}  // namespace taut::dashboard
