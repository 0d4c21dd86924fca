#include "common/http/server.hpp"

#include <array>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/http/login.hpp"
#include "common/unix_time.hpp"
#include "tests/support/catch.hpp"

namespace taut::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

std::unique_ptr<Server> begin(Server::Options options = {}) {
  options.address = "127.0.0.1:0";
  auto server = Server::start(std::move(options), [](const Request& request) -> Response {
    if (request.path == "/throws") throw std::runtime_error("a mistake");
    if (request.path == "/events") {
      Response response;
      response.streams = true;
      response.body = "data: first\n\n";
      return response;
    }
    return text_response(
        200, request.method + " " + request.path + "?" + request.query + " " + request.body);
  });
  REQUIRE(server.has_value());
  return std::move(server.value());
}

/// A peer that says exactly what it is told.
class Peer {
 public:
  explicit Peer(const Server& server) : socket_(context_) {
    const std::string port = server.address().substr(server.address().rfind(':') + 1);
    asio::connect(socket_, tcp::resolver(context_).resolve("127.0.0.1", port));
  }
  void say(const std::string& bytes) {
    boost::system::error_code ignored;  // the server may have hung up already
    asio::write(socket_, asio::buffer(bytes), ignored);
  }
  /// Everything until the server closes.
  std::string rest() {
    boost::system::error_code ended;
    std::string all;
    asio::read(socket_, asio::dynamic_buffer(all), ended);
    return all;
  }
  /// Requests the stream of events. Returns its first event.
  std::string follow(const Server& server) {
    say("GET /events HTTP/1.1\r\nHost: " + server.address() + "\r\n\r\n");
    return until("data: first\n\n");
  }
  std::string until(const std::string& mark) {
    boost::system::error_code ended;
    asio::read_until(socket_, asio::dynamic_buffer(heard_), mark, ended);
    return heard_;
  }

 private:
  asio::io_context context_;
  tcp::socket socket_;
  std::string heard_;
};

std::string request(const Server& server, const std::string& first_line,
                    const std::string& more = "", const std::string& body = "") {
  return first_line + " HTTP/1.1\r\nHost: " + server.address() + "\r\nConnection: close\r\n" +
         more + (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") +
         "\r\n" + body;
}

std::string answer(const Server& server, const std::string& bytes) {
  Peer peer(server);
  peer.say(bytes);
  return peer.rest();
}

void check_alive(const Server& server) {
  CHECK(answer(server, request(server, "GET /still/here")).starts_with("HTTP/1.1 200"));
}

TEST_CASE("a request is answered with its path, query and body taken apart", "[http]") {
  const auto server = begin();
  const std::string got = answer(*server, request(*server, "POST /a/b?c=d", "", "body"));
  CHECK(got.starts_with("HTTP/1.1 200"));
  CHECK(got.ends_with("POST /a/b?c=d body\n"));
}

TEST_CASE("one connection carries several requests", "[http]") {
  const auto server = begin();
  Peer peer(*server);
  for (const char* path : {"/one", "/two"}) {
    peer.say(std::string("GET ") + path + " HTTP/1.1\r\nHost: " + server->address() + "\r\n\r\n");
    CHECK(peer.until(std::string("GET ") + path + "? \n").find(path) != std::string::npos);
  }
}

TEST_CASE("an oversized body is refused unread, and the server continues", "[http]") {
  Server::Options options;
  options.limits.body_bytes = 100;
  const auto server = begin(std::move(options));
  CHECK(answer(*server, request(*server, "POST /", "", std::string(101, 'x')))
            .starts_with("HTTP/1.1 413"));
  CHECK(answer(*server, request(*server, "POST /", "Content-Length: 99999999999\r\n"))
            .starts_with("HTTP/1.1 413"));
  check_alive(*server);
}

TEST_CASE("oversized headers and garbage are refused, and the server continues", "[http]") {
  const auto server = begin();
  const std::string long_header = "X: " + std::string(20000, 'x') + "\r\n";
  CHECK(answer(*server, request(*server, "GET /", long_header)).starts_with("HTTP/1.1 431"));
  CHECK(answer(*server, "this is no HTTP\r\n\r\n").starts_with("HTTP/1.1 400"));
  CHECK(answer(*server, std::string(100, '\0') + "\r\n\r\n").starts_with("HTTP/1.1 400"));
  check_alive(*server);
}

TEST_CASE("a Host that is not this process is refused", "[http]") {
  const auto server = begin();
  CHECK(answer(*server, "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 421"));
  CHECK(answer(*server, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 421"));
}

TEST_CASE("a server with a secret answers open paths, and others after a login", "[http]") {
  Server::Options options;
  options.secret = std::string(64, 's');
  options.open_paths = {"/open"};
  const auto server = begin(options);
  CHECK(answer(*server, request(*server, "GET /open")).starts_with("HTTP/1.1 200"));
  const std::string refused = answer(*server, request(*server, "GET /"));
  CHECK(refused.starts_with("HTTP/1.1 401"));
  CHECK_THAT(refused, Catch::Matchers::Contains("WWW-Authenticate: Bearer"));
  const std::string logged_in =
      answer(*server, request(*server, "GET " + login_path(options.secret, unix_time_s())));
  CHECK(logged_in.starts_with("HTTP/1.1 303"));
  CHECK_THAT(logged_in, Catch::Matchers::Contains("Location: /\r\n"));
  const std::string mark = "Set-Cookie: ";
  const auto begin_of_cookie = logged_in.find(mark) + mark.size();
  const std::string cookie =
      logged_in.substr(begin_of_cookie, logged_in.find(';', begin_of_cookie) - begin_of_cookie);
  CHECK(answer(*server, request(*server, "GET /", "Cookie: " + cookie + "\r\n"))
            .starts_with("HTTP/1.1 200"));
  const std::string token = token_of(options.secret, TokenRight::kRead);
  CHECK(answer(*server, request(*server, "GET /", "Authorization: Bearer " + token + "\r\n"))
            .starts_with("HTTP/1.1 200"));
}

TEST_CASE("a foreign Origin changes nothing", "[http]") {
  const auto server = begin();
  CHECK(answer(*server, request(*server, "POST /", "Origin: http://evil.example\r\n", "{}"))
            .starts_with("HTTP/1.1 403"));
  CHECK(answer(*server,
               request(*server, "POST /", "Origin: http://" + server->address() + "\r\n", "{}"))
            .starts_with("HTTP/1.1 200"));
}

TEST_CASE("a peer with a slow request is dropped, and delays no other", "[http]") {
  Server::Options options;
  options.limits.request = Duration(200'000);
  const auto server = begin(std::move(options));
  Peer slow(*server);
  slow.say("GET / HTTP/1.1\r\nHo");
  check_alive(*server);
  CHECK(slow.rest().empty());
}

TEST_CASE("a connection beyond the limit takes the place of the one that is idle for longest",
          "[http]") {
  Server::Options options;
  options.limits.connections = 2;
  const auto server = begin(std::move(options));
  Peer one(*server);
  Peer two(*server);
  const std::string get = "GET / HTTP/1.1\r\nHost: " + server->address() + "\r\n\r\n";
  for (Peer* peer : {&one, &two}) {
    peer->say(get);
    CHECK(peer->until("GET /? \n").starts_with("HTTP/1.1 200"));
  }
  check_alive(*server);
  CHECK(one.rest().empty());  // it was closed
  two.say("GET /again HTTP/1.1\r\nHost: " + server->address() + "\r\n\r\n");
  CHECK(two.until("GET /again? \n").ends_with("GET /again? \n"));
}

TEST_CASE("streams are limited, and leave room for requests", "[http]") {
  Server::Options options;
  options.limits.connections = 3;
  options.limits.streams = 2;
  const auto server = begin(std::move(options));
  Peer one(*server);
  Peer two(*server);
  for (Peer* peer : {&one, &two}) CHECK(peer->follow(*server).ends_with("data: first\n\n"));
  CHECK(answer(*server, request(*server, "GET /events")).starts_with("HTTP/1.1 503"));
  // An idle connection is closed for a new one, however many there are.
  std::array<std::unique_ptr<Peer>, 20> idle;
  for (auto& peer : idle) peer = std::make_unique<Peer>(*server);
  check_alive(*server);
  server->publish("data: second\n\n");
  CHECK(two.until("data: second\n\n").ends_with("data: second\n\n"));
}

TEST_CASE("the streams of one address are limited", "[http]") {
  Server::Options options;
  options.limits.streams_of_address = 1;
  const auto server = begin(std::move(options));
  Peer one(*server);
  CHECK(one.follow(*server).ends_with("data: first\n\n"));
  CHECK(answer(*server, request(*server, "GET /events")).starts_with("HTTP/1.1 503"));
}

TEST_CASE("a stream ends after its time, and may be opened again", "[http]") {
  Server::Options options;
  options.limits.stream = Duration(200'000);
  options.limits.streams = 1;
  const auto server = begin(std::move(options));
  Peer peer(*server);
  CHECK(peer.follow(*server).ends_with("data: first\n\n"));
  CHECK(peer.rest().empty());
  Peer again(*server);
  CHECK(again.follow(*server).ends_with("data: first\n\n"));
}

TEST_CASE("a request is answered while 128 streams were asked for and none is read", "[http]") {
  const auto server = begin();
  std::vector<std::unique_ptr<Peer>> idle;
  for (int i = 0; i < 128; ++i) {
    idle.push_back(std::make_unique<Peer>(*server));
    idle.back()->say("GET /events HTTP/1.1\r\nHost: " + server->address() + "\r\n\r\n");
  }
  check_alive(*server);
  check_alive(*server);
}

TEST_CASE("an answer that waits delays no other, and ends when its time is over", "[http]") {
  std::promise<void> release;
  std::atomic<int> asked = 0;
  Server::Options options;
  options.address = "127.0.0.1:0";
  options.limits.patience = Duration(200'000);
  options.limits.waiting = 1;
  options.waits = [](const Request& one) { return one.path == "/slow"; };
  options.late = [](const Request&) { return text_response(503, "not now"); };
  auto server = Server::start(std::move(options), [&](const Request& one) {
                  if (one.path != "/slow") return text_response(200, "quick");
                  if (asked++ == 0) release.get_future().wait();
                  return text_response(200, "slow");
                }).value();
  Peer waiting(*server);
  waiting.say(request(*server, "GET /slow"));
  while (asked == 0) std::this_thread::yield();
  check_alive(*server);
  CHECK(waiting.rest().starts_with("HTTP/1.1 503"));
  // One more waits behind it, and a third is refused at once.
  CHECK(answer(*server, request(*server, "GET /slow")).starts_with("HTTP/1.1 503"));
  CHECK(answer(*server, request(*server, "GET /slow")).starts_with("HTTP/1.1 503"));
  check_alive(*server);
  release.set_value();
  std::string got;
  for (int i = 0; i < 1000 && !got.starts_with("HTTP/1.1 200"); ++i) {
    got = answer(*server, request(*server, "GET /slow"));
  }
  CHECK(got.ends_with("slow\n"));
}

TEST_CASE("where no connection is idle a further one is closed", "[http]") {
  Server::Options options;
  options.limits.connections = 1;
  const auto server = begin(std::move(options));
  {
    Peer stream(*server);
    CHECK(stream.follow(*server).ends_with("data: first\n\n"));
    CHECK(answer(*server, request(*server, "GET /")).empty());
  }
  // It has gone once the server has seen it; each try may come before that.
  bool is_answered = false;
  for (int i = 0; i < 1000 && !is_answered; ++i) {
    is_answered = answer(*server, request(*server, "GET /")).starts_with("HTTP/1.1 200");
  }
  CHECK(is_answered);
}

TEST_CASE("an error in an answer is a 500, and the server continues", "[http]") {
  const auto server = begin();
  CHECK(answer(*server, request(*server, "GET /throws")).starts_with("HTTP/1.1 500"));
  check_alive(*server);
}

TEST_CASE("a stream starts with its first events and gets published ones", "[http]") {
  const auto server = begin();
  Peer peer(*server);
  const std::string head = peer.follow(*server);
  CHECK(head.find("Content-Type: text/event-stream") != std::string::npos);
  server->publish("data: second\n\n");
  CHECK(peer.until("data: second\n\n").ends_with("data: second\n\n"));
}

TEST_CASE("a stream whose reader sleeps misses events instead of piling them up", "[http]") {
  Server::Options options;
  options.limits.queued_events = 2;
  const auto server = begin(std::move(options));
  Peer peer(*server);
  peer.follow(*server);
  // More than the sockets' buffers take, unread.
  const std::string piece = "data: " + std::string(1 << 20, 'x') + "\n\n";
  for (int i = 0; i < 100; ++i) server->publish(piece);
  check_alive(*server);
}

TEST_CASE("a port that is in use is an error that names it", "[http]") {
  const auto server = begin();
  Server::Options options;
  options.address = server->address();
  const auto second = Server::start(std::move(options), [](const Request&) { return Response(); });
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::kExists);
  CHECK(second.error().message.find(server->address()) != std::string::npos);
}

}  // namespace
}  // namespace taut::http
