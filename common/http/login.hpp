#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/http/request.hpp"

namespace taut::http {

/// What a program may do that sends `Authorization: Bearer TOKEN` with each request.
enum class TokenRight : std::uint8_t {
  kRead,    // GET and HEAD: scrapers
  kChange,  // everything
};

/// The token of a right, for those that know the secret.
/// secret    see Login
[[nodiscard]] std::string token_of(const std::string& secret, TokenRight right);

/// The path of a link that logs a browser in, once and for the next minutes.
/// now_s     unix_time_s()
[[nodiscard]] std::string login_path(const std::string& secret, double now_s);

/// Admits clients that know a secret: a browser by a link that works once and leaves it a cookie, a
/// program by a token in each request. All of them are derived from the secret by HMAC-SHA-256
/// (RFC 2104), so that another process that has it can make them, and browsers stay logged in when
/// the server starts again.
/// Thread    one
class Login {
 public:
  /// secret    at least 32 characters that cannot be guessed
  /// port      of the server: browsers keep cookies by host, whatever the port
  Login(std::string secret, const std::string& port);

  /// What a request gets instead of its answer; nullopt: it may be answered.
  ///   303  the link is good; with the cookie, to the page
  ///   401  no cookie, no token, or a link that was used, or is too old
  ///   403  the token is one for readers
  /// now_s     unix_time_s()
  [[nodiscard]] std::optional<Response> admit(const Request& request, double now_s);

 private:
  [[nodiscard]] Response follow_link(const Request& request, double now_s);

  const std::string secret_;
  const std::string cookie_;  // "tautline_7680=..."
  const std::string read_header_, change_header_;
  std::map<std::string, double> used_;  // links, and when they end by themselves
};

}  // namespace taut::http
