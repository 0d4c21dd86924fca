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
constexpr unsigned kQuietTicks = 4;  // ticks between two records while no page is open

}  // namespace

Dashboard::Dashboard(const Options& options, Ask ask, std::function<ServerFigures()> figures)
    : name_(options.server),
      ask_(ask),
      figures_(std::move(figures)),
      api_(std::move(ask), unix_time_s) {}

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
  TAUT_TRY(
      dashboard->server_,
      http::Server::start(std::move(serve), [self = dashboard.get()](const http::Request& request) {
        return self->answer(request);
      }));
  *ready = true;
  return dashboard;
}

http::Response Dashboard::answer(const http::Request& request) {
  if (request.path != metrics::kPath) return api_.answer(request);
  if (request.method != "GET" && request.method != "HEAD") {
    http::Response refused = http::text_response(405, "this address answers GET, HEAD");
    refused.allow = "GET, HEAD";
    return refused;
  }
  return scrape();
}

http::Response Dashboard::scrape() {
  metrics::Scrape scrape;
  scrape.build_info(build_name(), "server", name_);
  scrape.process();
  add_server(scrape, name_, figures_());
  pb::ControlMessage message;
  message.mutable_status_request();
  if (const auto reply = ask_(message)) add_cluster(scrape, reply.value().status_reply());
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
