#include "common/http/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace taut::http {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool changes_state(const std::string& method) {
  return method != "GET" && method != "HEAD";
}

}  // namespace

std::optional<Response> refuse(const Request& request, const Policy& policy) {
  const std::string host = lower(request.host);
  if (std::find(policy.hosts.begin(), policy.hosts.end(), host) == policy.hosts.end()) {
    return text_response(421, fmt::format("\"{}\" is not a name of this process; add it to http {{ "
                                          "allowed_hosts }} if it should be",
                                          request.host.substr(0, 100)));
  }
  // A browser sends the page's origin with every request except plain GETs of the same origin.
  const std::string origin = lower(request.origin);
  const bool own = origin.empty() || origin == "http://" + host || origin == "https://" + host;
  if (changes_state(request.method) && !own) {
    return text_response(403, "a page of another origin may change nothing here");
  }
  return std::nullopt;
}

std::vector<std::string> host_names(const std::string& address,
                                    const std::vector<std::string>& configured) {
  const std::string port = address.substr(address.rfind(':') + 1);
  std::vector<std::string> names{lower(address)};
  for (const char* local : {"localhost", "127.0.0.1", "[::1]"}) {
    names.push_back(fmt::format("{}:{}", local, port));
  }
  for (const std::string& name : configured) {
    names.push_back(lower(name));
    if (name.find(':') == std::string::npos)
      names.push_back(fmt::format("{}:{}", lower(name), port));
  }
  return names;
}

}  // namespace taut::http
