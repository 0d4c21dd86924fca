#include "common/http/login.hpp"

#include "tests/support/catch.hpp"

namespace taut::http {
namespace {

using Catch::Matchers::Contains;

const std::string kSecret(64, 's');
constexpr double kNow = 1'700'000'000;

Request get(const std::string& path, const std::string& query = "") {
  Request request;
  request.method = "GET";
  request.path = path;
  request.query = query;
  return request;
}

/// A GET of a link, "/login?once=...".
Request follow(const std::string& link) {
  const auto mark = link.find('?');
  return get(link.substr(0, mark), link.substr(mark + 1));
}

unsigned status_of(Login& login, const Request& request, double now_s = kNow) {
  const auto instead = login.admit(request, now_s);
  return instead ? instead->status : 200;
}

/// "name=value" of the cookie that a link leaves.
std::string cookie_of(Login& login) {
  const auto answer = login.admit(follow(login_path(kSecret, kNow)), kNow);
  REQUIRE(answer.has_value());
  REQUIRE(answer->status == 303);
  CHECK(answer->location == "/");
  CHECK_THAT(answer->cookie, Contains("; HttpOnly") && Contains("; SameSite=Lax"));
  return answer->cookie.substr(0, answer->cookie.find(';'));
}

TEST_CASE("without a cookie or a token nothing is answered, and the refusal says how", "[http]") {
  Login login(kSecret, "7680");
  for (const char* path : {"/", "/metrics", "/api/status", "/none"}) {
    const auto refused = login.admit(get(path), kNow);
    REQUIRE(refused.has_value());
    CHECK(refused->status == 401);
    CHECK(refused->challenge == "Bearer");
    CHECK_THAT(refused->body, Contains("tautline page"));
  }
}

TEST_CASE("a link leaves a cookie, and the cookie lets in, after a restart too", "[http]") {
  Login login(kSecret, "7680");
  Request request = get("/");
  request.cookie = cookie_of(login);
  CHECK(status_of(login, request) == 200);
  request.method = "POST";
  CHECK(status_of(login, request) == 200);
  request.cookie = "theme=dark; " + request.cookie + "; other=1";
  CHECK(status_of(login, request) == 200);
  Login restarted(kSecret, "7680");
  CHECK(status_of(restarted, request) == 200);

  Login of_another_port(kSecret, "7681");
  CHECK(status_of(of_another_port, request) == 401);
  Login of_another_secret(std::string(64, 't'), "7680");
  CHECK(status_of(of_another_secret, request) == 401);
  request.cookie = "tautline_7680=";
  CHECK(status_of(login, request) == 401);
}

TEST_CASE("a link works once, within ten minutes, and cannot be made without the secret",
          "[http]") {
  Login login(kSecret, "7680");
  const std::string link = login_path(kSecret, kNow);
  Request head = follow(link);
  head.method = "HEAD";  // as programs do that preview links
  CHECK(status_of(login, head) == 405);
  CHECK(status_of(login, follow(link)) == 303);
  CHECK(status_of(login, follow(link)) == 401);
  CHECK(status_of(login, follow(login_path(kSecret, kNow)), kNow + 599) == 303);
  CHECK(status_of(login, follow(login_path(kSecret, kNow)), kNow + 601) == 401);
  CHECK(status_of(login, follow(login_path(std::string(64, 't'), kNow))) == 401);
  for (const char* query : {"", "once=", "once=.", "once=..", "once=1.2", "once=99999999999.a.b",
                            "once=9999999999999999999999.a.b", "once=-1.a.", "other=1"}) {
    CAPTURE(query);
    CHECK(status_of(login, get("/login", query)) == 401);
  }
  // A later end needs another signature.
  std::string later = login_path(kSecret, kNow);
  later.replace(later.find('=') + 1, 10,
                std::to_string(static_cast<std::int64_t>(kNow) + 1'000'000));
  CHECK(status_of(login, follow(later)) == 401);
}

TEST_CASE("links that were used are forgotten when they end by themselves", "[http]") {
  Login login(kSecret, "7680");
  for (int i = 0; i < 1024; ++i) {
    REQUIRE(status_of(login, follow(login_path(kSecret, kNow))) == 303);
  }
  CHECK(status_of(login, follow(login_path(kSecret, kNow))) == 401);
  CHECK(status_of(login, follow(login_path(kSecret, kNow + 700)), kNow + 700) == 303);
}

TEST_CASE("a reader's token reads, and the other one changes", "[http]") {
  Login login(kSecret, "7680");
  Request request = get("/metrics");
  request.authorization = "Bearer " + token_of(kSecret, TokenRight::kRead);
  CHECK(status_of(login, request) == 200);
  request.method = "POST";
  CHECK(status_of(login, request) == 403);
  request.authorization = "Bearer " + token_of(kSecret, TokenRight::kChange);
  CHECK(status_of(login, request) == 200);
  request.authorization = token_of(kSecret, TokenRight::kChange);
  CHECK(status_of(login, request) == 401);
  request.authorization = "Bearer ";
  CHECK(status_of(login, request) == 401);
}

}  // namespace
}  // namespace taut::http
