#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace taut::http {

/// A complete request.
struct Request {
  std::string method;  // "GET"
  std::string path;    // "/api/status", without the query
  std::string query;   // what follows "?"
  std::string host;    // the Host header
  std::string origin;  // the Origin header; empty: none
  std::string content_type;
  std::string authorization;
  std::string cookie;  // the Cookie header, all of them
  std::string body;
};

struct Response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  bool streams = false;  // after the body, events follow until the peer leaves (Server::publish)
  std::string allow;     // for status 405: the methods that are allowed
  // Headers; empty: not sent.
  std::string challenge;  // WWW-Authenticate
  std::string location;
  std::string cookie;  // Set-Cookie
};

[[nodiscard]] inline Response text_response(unsigned status, std::string body) {
  Response response;
  response.status = status;
  response.body = std::move(body) + "\n";
  return response;
}
[[nodiscard]] inline Response json_response(unsigned status, std::string body) {
  Response response;
  response.status = status;
  response.type = "application/json";
  response.body = std::move(body);
  return response;
}

/// What one server accepts from its peers.
struct Policy {
  // Names that a browser may use for this process, "host" or "host:port", in addition to its
  // address and localhost. This refuses foreign names that resolve to this address (DNS rebinding).
  std::vector<std::string> hosts;
};

/// The refusal of a request by its headers alone; nullopt if it may be handled.
///   421  the Host is not one of this process's names
///   403  a page of another origin requests a change
[[nodiscard]] std::optional<Response> refuse(const Request& request, const Policy& policy);

/// The names of a process that listens at "host:port", and the configured ones.
[[nodiscard]] std::vector<std::string> host_names(const std::string& address,
                                                  const std::vector<std::string>& configured);

}  // namespace taut::http
