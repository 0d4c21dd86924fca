#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/http/request.hpp"

namespace taut::http {

/// What a program that sends `Authorization: Bearer TOKEN` with each request may do.
enum class TokenRight : std::uint8_t {
  kRead,    // GET and HEAD: scrapers
  kChange,  // everything
};

/// The token for a right, derived from the secret.
/// secret    see Login
[[nodiscard]] std::string token_of(const std::string& secret, TokenRight right);

/// The path of a link that logs a browser in once, within the next ten minutes.
/// now_s     unix_time_s()
[[nodiscard]] std::string login_path(const std::string& secret, double now_s);

/// Admits clients that prove access to a secret: a browser by a link that works once and sets a
/// cookie, a program by a token in each request. All three are derived from the secret by
/// HMAC-SHA-256 (RFC 2104), so another process that has it can make them, and browsers stay logged
/// in when the server restarts.
/// Thread    one
class Login {
 public:
  /// secret    at least 32 characters that cannot be guessed
  /// port      of the server, for the name of the cookie: browsers keep cookies per host, not port
  Login(std::string secret, const std::string& port);

  /// The response to send in place of a request's answer; nullopt if it may be answered.
  ///   303  the link is valid: sets the cookie and redirects to the page
  ///   401  no valid cookie or token, or a link that is invalid, was used or has expired
  ///   403  the token permits only reading
  /// now_s     unix_time_s()
  [[nodiscard]] std::optional<Response> admit(const Request& request, double now_s);

 private:
  [[nodiscard]] Response follow_link(const Request& request, double now_s);

  const std::string secret_;
  const std::string cookie_;  // "tautline_7680=..."
  const std::string read_header_, change_header_;
  std::map<std::string, double> used_;  // links, and when they expire
};

}  // namespace taut::http
