#include "common/http/login.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "common/check.hpp"
#include "common/files/sha256.hpp"

namespace taut::http {
namespace {

constexpr std::int64_t kLinkLife_s = 600;
constexpr std::size_t kMinSecret = 32;
constexpr std::size_t kMaxUsed = 1024;  // used links that have not expired; few users make links
constexpr std::string_view kLinkPath = "/login";
constexpr std::string_view kLinkQuery = "once=";

constexpr const char* kHowToLogIn =
    "this page needs a login: print a link that logs a browser in with \"tautline page\", on this "
    "machine and as the user who started the daemon; a program sends \"Authorization: Bearer "
    "TOKEN\", with a token from \"tautline page --token read\"";

/// Takes the same time whichever letter differs.
bool are_equal(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string signature_of(const std::string& secret, std::int64_t until_s, std::string_view nonce) {
  return hmac_sha256(secret, fmt::format("link {} {}", until_s, nonce));
}

Response refusal(std::string reason) {
  Response response = text_response(401, std::move(reason));
  response.challenge = "Bearer";
  return response;
}

/// Whether one of the cookies of a Cookie header, "a=b; c=d", is this one.
bool has_cookie(std::string_view header, std::string_view wanted) {
  while (!header.empty()) {
    const auto end = std::min(header.find(';'), header.size());
    if (are_equal(header.substr(0, end), wanted)) return true;
    header.remove_prefix(std::min(end + 1, header.size()));
    while (header.starts_with(' ')) header.remove_prefix(1);
  }
  return false;
}

}  // namespace

std::string token_of(const std::string& secret, TokenRight right) {
  return hmac_sha256(secret, right == TokenRight::kRead ? "read" : "change");
}

std::string login_path(const std::string& secret, double now_s) {
  const auto until_s = static_cast<std::int64_t>(now_s) + kLinkLife_s;
  const std::string nonce = random_hex(16);
  return fmt::format("{}?{}{}.{}.{}", kLinkPath, kLinkQuery, until_s, nonce,
                     signature_of(secret, until_s, nonce));
}

Login::Login(std::string secret, const std::string& port)
    : secret_(std::move(secret)),
      cookie_(fmt::format("tautline_{}={}", port, hmac_sha256(secret_, "cookie"))),
      read_header_("Bearer " + token_of(secret_, TokenRight::kRead)),
      change_header_("Bearer " + token_of(secret_, TokenRight::kChange)) {
  TAUT_CHECK(secret_.size() >= kMinSecret, "a secret that can be guessed");
}

std::optional<Response> Login::admit(const Request& request, double now_s) {
  if (request.path == kLinkPath) return follow_link(request, now_s);
  if (are_equal(request.authorization, change_header_)) return std::nullopt;
  if (are_equal(request.authorization, read_header_)) {
    if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
    return text_response(403,
                         "this token reads and changes nothing; \"tautline page --token change\" "
                         "prints one that may");
  }
  if (has_cookie(request.cookie, cookie_)) return std::nullopt;
  return refusal(kHowToLogIn);
}

Response Login::follow_link(const Request& request, double now_s) {
  if (request.method != "GET") {
    Response response = text_response(405, "this address answers GET");
    response.allow = "GET";
    return response;
  }
  std::string_view rest = request.query;
  std::int64_t until_s = 0;
  if (rest.starts_with(kLinkQuery)) {
    rest.remove_prefix(kLinkQuery.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), until_s);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  const auto dot = rest.rfind('.');
  const bool has_form = rest.starts_with('.') && dot != std::string_view::npos && dot > 0;
  const std::string nonce(has_form ? rest.substr(1, dot - 1) : std::string_view());
  if (!has_form || !are_equal(rest.substr(dot + 1), signature_of(secret_, until_s, nonce))) {
    return refusal("this link is no longer valid; print one with \"tautline page\"");
  }
  std::erase_if(used_, [&](const auto& link) { return link.second < now_s; });
  const auto ends = static_cast<double>(until_s);
  if (ends < now_s || used_.size() >= kMaxUsed || !used_.emplace(nonce, ends).second) {
    return refusal("this link has been used, or is too old; print another with \"tautline page\"");
  }
  Response response = text_response(303, "logged in");
  response.location = "/";
  response.cookie = cookie_ + "; HttpOnly; SameSite=Lax; Path=/";
  return response;
}

}  // namespace taut::http
