#include "common/metrics/serve_metrics.hpp"

#include <utility>

#include "common/metrics/metrics.hpp"

namespace taut::metrics {

Result<std::unique_ptr<http::Server>> serve(http::Server::Options options,
                                            std::function<std::string()> text) {
  return http::Server::start(
      std::move(options), [text = std::move(text)](const http::Request& request) -> http::Response {
        if (request.path != kPath) return http::text_response(404, "only /metrics exists here");
        if (request.method != "GET" && request.method != "HEAD") {
          http::Response refused = http::text_response(405, "this address answers GET, HEAD");
          refused.allow = "GET, HEAD";
          return refused;
        }
        http::Response scraped;
        scraped.type = kTextType;
        scraped.body = text();
        return scraped;
      });
}

}  // namespace taut::metrics
