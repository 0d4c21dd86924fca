#include "common/metrics/serve_metrics.hpp"

#include <utility>

#include "common/metrics/metrics.hpp"

namespace taut::metrics {

Result<std::unique_ptr<http::Server>> serve(const std::string& address,
                                            const std::vector<std::string>& hosts,
                                            std::function<std::string()> text) {
  http::Server::Options options;
  options.address = address;
  options.hosts = hosts;
  return http::Server::start(
      std::move(options), [text = std::move(text)](const http::Request& request) -> http::Response {
        if (request.path != "/metrics")
          return http::text_response(404, "only /metrics exists here");
        if (request.method != "GET" && request.method != "HEAD") {
          http::Response refused = http::text_response(405, "this address answers GET, HEAD");
          refused.allow = "GET, HEAD";
          return refused;
        }
        return {200, kTextType, text(), false, {}};
      });
}

}  // namespace taut::metrics
