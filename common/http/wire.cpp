#include "common/http/wire.hpp"

#include <fmt/format.h>

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <string>
#include <utility>

namespace taut::http {
namespace {

namespace bhttp = boost::beast::http;

Request to_request(bhttp::request<bhttp::string_body>&& in) {
  Request request;
  request.method = in.method_string();
  const std::string target(in.target());
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  request.host = std::string(in[bhttp::field::host]);
  request.origin = std::string(in[bhttp::field::origin]);
  request.content_type = std::string(in[bhttp::field::content_type]);
  request.authorization = std::string(in[bhttp::field::authorization]);
  request.cookie = std::string(in[bhttp::field::cookie]);
  request.body = std::move(in.body());
  return request;
}

}  // namespace

void set_limits(RequestParser& parser, const Limits& limits) {
  parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  parser.body_limit(limits.body_bytes);
}

Arrival arrival_of(RequestParser& parser, boost::beast::error_code error, const Limits& limits) {
  Arrival arrival;
  if (error == bhttp::error::body_limit) {
    arrival.refusal =
        text_response(413, fmt::format("a body may have {} bytes here", limits.body_bytes));
    return arrival;
  }
  if (error == bhttp::error::header_limit) {
    arrival.refusal = text_response(431, "the headers are too long");
    return arrival;
  }
  if (error) {
    // Malformed HTTP is an error of the parser; any other error means that the peer left.
    const bool is_parsers =
        error.category() == make_error_code(bhttp::error::bad_method).category();
    if (is_parsers && error != bhttp::error::end_of_stream) {
      arrival.refusal = text_response(400, "this is not an HTTP request");
    }
    return arrival;
  }
  arrival.version = parser.get().version();
  arrival.stays = parser.get().keep_alive();
  arrival.head_only = parser.get().method() == bhttp::verb::head;
  arrival.request = to_request(parser.release());
  return arrival;
}

bhttp::response<bhttp::string_body> to_wire(Response&& response, unsigned version) {
  bhttp::response<bhttp::string_body> out;
  out.version(version);
  out.result(response.status);
  out.set(bhttp::field::content_type, response.type);
  out.set(bhttp::field::cache_control, "no-store");
  out.set("X-Content-Type-Options", "nosniff");
  out.set("X-Frame-Options", "DENY");
  out.set("Referrer-Policy", "no-referrer");
  out.set("Content-Security-Policy",
          "default-src 'none'; script-src 'self'; style-src 'self'; "
          "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'");
  const std::pair<bhttp::field, const std::string&> others[] = {
      {bhttp::field::allow, response.allow},
      {bhttp::field::www_authenticate, response.challenge},
      {bhttp::field::location, response.location},
      {bhttp::field::set_cookie, response.cookie}};
  for (const auto& [field, value] : others) {
    if (!value.empty()) out.set(field, value);
  }
  out.body() = std::move(response.body);
  return out;
}

}  // namespace taut::http
