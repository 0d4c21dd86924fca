// What a peer of the page's address sends: each of its requests is answered, with an answer that is
// one of HTTP, or refused, and the coordinator hears nothing of who has not logged in. The first
// byte says how many bytes arrive at a time.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/http/login.hpp"
#include "common/http/wire.hpp"
#include "server/dashboard/api.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/dashboard/status_maker.hpp"

namespace taut {
namespace {

namespace bhttp = boost::beast::http;

constexpr const char* kAddress = "127.0.0.1:7680";
constexpr double kNow = 1'700'000'000;
const std::string kSecret(64, 's');

/// A peer's bytes, a given number at a time. A stream as Boost.Beast reads it.
class PeerBytes {
 public:
  PeerBytes(std::string_view bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}

  template <class Buffers>
  std::size_t read_some(const Buffers& into, boost::beast::error_code& error) {
    const std::size_t count =
        boost::asio::buffer_copy(into, boost::asio::buffer(bytes_.data(), bytes_.size()), piece_);
    bytes_.remove_prefix(count);
    error = {};
    if (count == 0 && boost::asio::buffer_size(into) > 0) error = boost::asio::error::eof;
    return count;
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& into) {
    boost::beast::error_code error;
    return read_some(into, error);
  }

 private:
  std::string_view bytes_;
  const std::size_t piece_;
};

std::string cookie_of_secret() {
  http::Login login(kSecret, "7680");
  http::Request link;
  link.method = "GET";
  const std::string path = http::login_path(kSecret, kNow);
  link.path = path.substr(0, path.find('?'));
  link.query = path.substr(path.find('?') + 1);
  const std::string cookie = login.admit(link, kNow)->cookie;
  return cookie.substr(0, cookie.find(';'));
}

/// What the server's thread does with a request, apart from sending the answer.
class Site {
 public:
  http::Response answer(const http::Request& request) {
    static const std::string token = "Bearer " + http::token_of(kSecret, http::TokenRight::kChange);
    static const std::string cookie = cookie_of_secret();
    changed_ = false;
    auto response = respond(request);
    const bool has_logged_in =
        request.authorization == token || request.cookie.find(cookie) != std::string::npos;
    TAUT_CHECK(!changed_ || (has_logged_in && request.method == "POST"),
               "only who has logged in changes anything");
    return response;
  }

 private:
  http::Response respond(const http::Request& request) {
    if (auto refused = http::refuse(request, policy_)) return *std::move(refused);
    if (auto instead = login_.admit(request, kNow)) return *std::move(instead);
    return api_.answer(request);
  }
  Result<pb::ControlMessage> ask(const pb::ControlMessage& message) {
    pb::ControlMessage reply;
    if (message.has_status_request()) {
      *reply.mutable_status_reply() = dashboard::make_status(2);
      return reply;
    }
    changed_ = true;
    reply.mutable_command_reply()->set_message("done");
    return reply;
  }

  const http::Policy policy_{http::host_names(kAddress, {})};
  http::Login login_{kSecret, "7680"};
  bool changed_ = false;
  dashboard::Api api_{[this](const pb::ControlMessage& message) { return ask(message); },
                      [] { return kNow; }};
};

/// An answer's bytes are one answer, with this status, and nothing after it.
void check_answer(http::Response response, unsigned version, bool head_only) {
  const unsigned status = response.status;
  auto out = http::to_wire(std::move(response), version);
  out.keep_alive(true);
  out.prepare_payload();
  if (head_only) out.body().clear();
  std::ostringstream sent;
  sent << out;
  const std::string bytes = sent.str();
  bhttp::response_parser<bhttp::string_body> parser;
  parser.eager(true);
  parser.skip(head_only);
  parser.body_limit(boost::none);
  boost::beast::error_code error;
  const std::size_t taken = parser.put(boost::asio::buffer(bytes), error);
  TAUT_CHECK(!error && parser.is_done() && taken == bytes.size(), "an answer of HTTP");
  TAUT_CHECK(parser.get().result_int() == status, "the answer's status");
}

void play(std::string_view bytes, std::size_t piece) {
  const http::Limits limits;
  Site site;
  PeerBytes peer(bytes, piece);
  boost::beast::flat_buffer buffer;
  while (true) {
    http::RequestParser parser;
    http::set_limits(parser, limits);
    boost::beast::error_code error;
    bhttp::read(peer, buffer, parser, error);
    http::Arrival arrival = http::arrival_of(parser, error, limits);
    if (arrival.refusal) {
      static const std::set<unsigned> refusals = {400, 413, 431};
      TAUT_CHECK(refusals.contains(arrival.refusal->status), "a refusal's status");
      return check_answer(*std::move(arrival.refusal), arrival.version, false);
    }
    if (!arrival.request) return;
    const http::Request& request = *arrival.request;
    TAUT_CHECK(request.body.size() <= limits.body_bytes, "no longer body than the limit");
    TAUT_CHECK(
        request.path.size() + request.query.size() + request.cookie.size() <= limits.header_bytes,
        "no longer header than the limit");
    http::Response response = site.answer(request);
    if (response.streams) return;
    check_answer(std::move(response), arrival.version, arrival.head_only);
    if (!arrival.stays) return;
  }
}

std::string request_of(const std::string& line, const std::string& more, const std::string& body) {
  std::string bytes = line + " HTTP/1.1\r\nHost: " + kAddress + "\r\n" + more;
  if (!body.empty()) {
    bytes +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return bytes + "\r\n" + body;
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  const std::string change =
      "Authorization: Bearer " + http::token_of(kSecret, http::TokenRight::kChange) + "\r\n";
  const std::string read =
      "Authorization: Bearer " + http::token_of(kSecret, http::TokenRight::kRead) + "\r\n";
  const std::string status = request_of("GET /api/status?x=1", read, "");
  const std::string slack = request_of("POST /api/jobs/7/slack", change, R"({"slack": 3})");
  const std::string trace = request_of(
      "POST /api/trace", change + "Origin: http://" + kAddress + "\r\n", R"({"on": true})");
  return {
      '\377' + status + slack,
      '\1' + request_of("POST /api/jobs/7/stop", change, R"({"discard": false})"),
      '\20' + trace + request_of("HEAD /api/jobs/7", change, "") + status,
      '\100' + request_of("GET " + http::login_path(kSecret, kNow), "Cookie: a=b; c=d\r\n", ""),
      '\100' + request_of("GET /api/events", read, ""),
      '\4' + request_of("POST /api/trace", "Cookie: a=b; " + cookie_of_secret() + "\r\n",
                        R"({"on": false})"),
      '\377' + request_of("GET /", "Connection: close\r\n", ""),
      '\17' +
          request_of("POST /api/trace",
                     change + "Content-Type: application/json\r\n"
                              "Transfer-Encoding: chunked\r\n",
                     "") +
          "6\r\n{\"on\":\r\n5\r\ntrue}\r\n0\r\n\r\n" + status,
      '\200' + request_of("GET /" + std::string(9000, 'x'), read, ""),
      '\200' + request_of("POST /api/trace", change, std::string(17'000, ' ')),
  };
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  taut::play(bytes, 1 + 16 * std::size_t{data[0]});
  return 0;
}
