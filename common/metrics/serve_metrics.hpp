#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/http/server.hpp"
#include "common/result.hpp"

namespace taut::metrics {

/// Serves /metrics, and nothing else.
/// text      of one scrape; called on the server's thread
/// Errors    as http::Server::start
[[nodiscard]] Result<std::unique_ptr<http::Server>> serve(const std::string& address,
                                                          const std::vector<std::string>& hosts,
                                                          std::function<std::string()> text);

}  // namespace taut::metrics
