#pragma once

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "common/http/request.hpp"
#include "common/http/server.hpp"

namespace taut::http {

/// Reads one request from a peer's bytes.
using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

/// Makes the parser end with an error if a request exceeds the limits.
void set_limits(RequestParser& parser, const Limits& limits);

/// What has arrived when the read of a request ends. If neither a request nor a refusal is set, the
/// peer disconnected or took too long.
struct Arrival {
  std::optional<Request> request;
  std::optional<Response> refusal;  // sent in place of an answer; then the connection is closed
  unsigned version = 11;            // of HTTP: 10 or 11
  bool stays = false;               // the peer may send another request
  bool head_only = false;           // it requests no body
};
/// error   the result of the read
[[nodiscard]] Arrival arrival_of(RequestParser& parser, boost::beast::error_code error,
                                 const Limits& limits);

/// The HTTP message of a response, for a request of that version.
[[nodiscard]] boost::beast::http::response<boost::beast::http::string_body> to_wire(
    Response&& response, unsigned version);

}  // namespace taut::http
