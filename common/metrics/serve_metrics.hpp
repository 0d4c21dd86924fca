#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/http/server.hpp"
#include "common/result.hpp"

namespace taut::metrics {

/// Serves /metrics, and nothing else.
/// text      returns the text of one scrape; called on the server's thread
/// Errors    as http::Server::start
[[nodiscard]] Result<std::unique_ptr<http::Server>> serve(http::Server::Options options,
                                                          std::function<std::string()> text);

}  // namespace taut::metrics
