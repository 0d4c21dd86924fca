#include "common/http/request.hpp"

#include "tests/support/catch.hpp"

namespace taut::http {
namespace {

const Policy kPolicy{host_names("127.0.0.1:7680", {"head.example", "Proxy:80"})};

Request from(const std::string& method, const std::string& host, const std::string& origin = "") {
  Request request;
  request.method = method;
  request.path = "/api/status";
  request.host = host;
  request.origin = origin;
  return request;
}

TEST_CASE("a request by one of the process's names is taken", "[http]") {
  for (const char* host : {"127.0.0.1:7680", "localhost:7680", "LOCALHOST:7680", "[::1]:7680",
                           "head.example", "head.example:7680", "proxy:80"}) {
    INFO(host);
    CHECK_FALSE(refuse(from("GET", host), kPolicy).has_value());
  }
}

TEST_CASE("a request with another host name is refused, whatever its path", "[http]") {
  for (const char* host : {"", "evil.example", "127.0.0.1:7681", "localhost", "127.0.0.1:76800"}) {
    INFO(host);
    for (const char* method : {"GET", "POST"}) {
      const auto refused = refuse(from(method, host), kPolicy);
      REQUIRE(refused.has_value());
      CHECK(refused->status == 421);
    }
  }
}

TEST_CASE("a page of another origin may look but change nothing", "[http]") {
  const std::string host = "localhost:7680";
  for (const char* origin : {"http://evil.example", "null", "http://localhost:8080",
                             "http://localhost", "http://localhost:7680.evil.example"}) {
    INFO(origin);
    CHECK_FALSE(refuse(from("GET", host, origin), kPolicy).has_value());
    for (const char* method : {"POST", "PUT", "DELETE", "PATCH"}) {
      const auto refused = refuse(from(method, host, origin), kPolicy);
      REQUIRE(refused.has_value());
      CHECK(refused->status == 403);
    }
  }
  CHECK_FALSE(refuse(from("POST", host, "http://localhost:7680"), kPolicy).has_value());
  CHECK_FALSE(refuse(from("POST", host), kPolicy).has_value());
}

}  // namespace
}  // namespace taut::http
