#include "common/http/server.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "common/check.hpp"
#include "common/http/login.hpp"
#include "common/http/slow_answers.hpp"
#include "common/http/wire.hpp"
#include "common/log.hpp"
#include "common/unix_time.hpp"

namespace taut::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kPause{200};
// Sent after the head of a stream: a browser that loses it reconnects after this many milliseconds.
constexpr std::string_view kStreamBegin = "retry: 1000\n\n";

/// What a connection requires of its server.
class Host {
 public:
  virtual ~Host() = default;
  /// Calls `done` once, at once or later, on the server's thread.
  virtual void answer(const Request& request, SlowAnswers::Done done) = 0;
  [[nodiscard]] virtual bool may_stream(const asio::ip::address& address) const = 0;
  [[nodiscard]] virtual const Limits& limits() const = 0;
};

/// One peer: sequential requests, until it requests a stream.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Host& host)
      : stream_(std::move(socket)), host_(host), stream_end_(stream_.get_executor()) {
    beast::error_code gone;
    address_ = stream_.socket().remote_endpoint(gone).address();
    // A host that vanished acknowledges nothing, and no timer of ours runs between two events.
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(host.limits().send);
    const auto ms = static_cast<unsigned>(wait.count());
    (void)setsockopt(stream_.socket().native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms,
                     sizeof ms);
  }

  void read() {
    is_idle_ = true;
    idle_since_ = steady_now();
    parser_.emplace();
    set_limits(*parser_, host_.limits());
    stream_.expires_after(host_.limits().request);
    bhttp::async_read(stream_, buffer_, *parser_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        self->on_read(error);
                      });
  }
  void publish(const std::shared_ptr<const std::string>& piece) {
    if (!streams_ || pieces_.size() >= host_.limits().queued_events) return;
    pieces_.push_back(piece);
    if (pieces_.size() == 1) write_piece();
  }
  [[nodiscard]] bool streams() const { return streams_; }
  /// Whether no complete request has arrived, and since when.
  [[nodiscard]] bool is_idle() const { return is_idle_; }
  [[nodiscard]] TimePoint idle_since() const { return idle_since_; }
  [[nodiscard]] const asio::ip::address& address() const { return address_; }
  void close() {
    stream_end_.cancel();
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.socket().close(ignored);
  }

 private:
  void on_read(beast::error_code error) {
    is_idle_ = false;
    Arrival arrival = arrival_of(*parser_, error, host_.limits());
    if (arrival.refusal) return respond(*std::move(arrival.refusal), arrival.version, false);
    if (!arrival.request) return close();
    host_.answer(*arrival.request,
                 [self = shared_from_this(), version = arrival.version, stays = arrival.stays,
                  head_only = arrival.head_only](Response response) {
                   if (head_only) response.streams = false;
                   self->respond(std::move(response), version, stays, head_only);
                 });
  }

  void respond(Response&& response, unsigned version, bool stays, bool head_only = false) {
    if (response.streams && !host_.may_stream(address_)) {
      response = text_response(503, "too many pages are open; close some of them");
    }
    if (response.streams) return begin_stream(std::move(response));
    out_ = to_wire(std::move(response), version);
    out_.keep_alive(stays);
    out_.prepare_payload();
    if (head_only) out_.body().clear();
    stream_.expires_after(host_.limits().send);
    bhttp::async_write(stream_, out_,
                       [self = shared_from_this(), stays](beast::error_code error, std::size_t) {
                         if (error || !stays) return self->close();
                         self->read();
                       });
  }

  void begin_stream(Response&& response) {
    streams_ = true;
    stream_end_.expires_after(host_.limits().stream);
    stream_end_.async_wait([weak = weak_from_this()](beast::error_code error) {
      if (const auto self = weak.lock(); self && !error) self->close();
    });
    await_end();
    pieces_.push_back(std::make_shared<const std::string>(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n" +
        std::string(kStreamBegin) + response.body));
    write_piece();
  }
  /// Keeps the connection until the peer disconnects or sends anything.
  void await_end() {
    stream_.socket().async_read_some(
        asio::buffer(&unasked_, 1),
        [self = shared_from_this()](beast::error_code, std::size_t) { self->close(); });
  }
  void write_piece() {
    stream_.expires_after(host_.limits().send);
    asio::async_write(stream_, asio::buffer(*pieces_.front()),
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        self->on_piece(error);
                      });
  }
  void on_piece(beast::error_code error) {
    if (error) return close();
    pieces_.pop_front();
    if (!pieces_.empty()) return write_piece();
    stream_.expires_never();
  }

  beast::tcp_stream stream_;
  Host& host_;
  asio::ip::address address_;
  bool is_idle_ = false;
  TimePoint idle_since_;
  beast::flat_buffer buffer_;
  std::optional<RequestParser> parser_;
  bhttp::response<bhttp::string_body> out_;
  bool streams_ = false;
  asio::steady_timer stream_end_;
  char unasked_ = 0;
  std::deque<std::shared_ptr<const std::string>> pieces_;
};

/// The parts of "host:port".
std::pair<std::string, std::string> split(const std::string& address) {
  const auto colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host == "localhost" ? "127.0.0.1" : host, address.substr(colon + 1)};
}

}  // namespace

class Server::Impl final : public Host {
 public:
  Impl(Options options, Handler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        acceptor_(context_),
        ticker_(context_),
        pause_(context_) {
    if (!options_.waits) return;
    TAUT_CHECK(options_.late != nullptr, "an answer to who waits too long");
    slow_ = std::make_unique<SlowAnswers>(context_, handler_, options_.late,
                                          options_.limits.patience, options_.limits.waiting);
  }

  Result<void> listen() {
    const auto [host, port] = split(options_.address);
    beast::error_code error;
    const auto place = asio::ip::make_address(host, error);
    if (error) {
      return invalid(
          fmt::format("http address \"{}\": give a numeric host and a port, e.g. "
                      "127.0.0.1:7680",
                      options_.address));
    }
    const tcp::endpoint end(place, static_cast<std::uint16_t>(std::stoul(port)));
    acceptor_.open(end.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(end, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error == asio::error::address_in_use) {
      return make_error(ErrorCode::kExists,
                        fmt::format("{}: the port is in use by another process", options_.address));
    }
    if (error) return invalid(fmt::format("{}: {}", options_.address, error.message()));
    const std::string shown = options_.address.substr(0, options_.address.rfind(':'));
    address_ = fmt::format("{}:{}", shown, acceptor_.local_endpoint().port());
    policy_.hosts = host_names(address_, options_.hosts);
    if (!options_.secret.empty()) {
      login_.emplace(options_.secret, address_.substr(address_.rfind(':') + 1));
    }
    return ok();
  }

  void run() {
    accept();
    if (options_.timer) tick();
    thread_ = std::thread([this] {
      while (!context_.stopped()) {
        try {
          context_.run();
        } catch (const std::exception& failure) {
          log::warn("http: {}", failure.what());
        }
      }
    });
  }
  void stop() {
    asio::post(context_, [this] {
      for (const auto& weak : connections_) {
        if (const auto connection = weak.lock()) connection->close();
      }
      context_.stop();
    });
    if (thread_.joinable()) thread_.join();
    slow_.reset();
  }
  void publish(const std::string& piece) {
    auto shared = std::make_shared<const std::string>(piece);
    asio::post(context_, [this, shared = std::move(shared)] {
      for (const auto& weak : connections_) {
        if (const auto connection = weak.lock()) connection->publish(shared);
      }
    });
  }
  [[nodiscard]] const std::string& address() const { return address_; }

  void answer(const Request& request, SlowAnswers::Done done) override {
    Response response;
    try {
      if (auto refused = refuse_or_login(request)) {
        response = *std::move(refused);
      } else if (slow_ && options_.waits(request)) {
        return slow_->answer(request, std::move(done));
      } else {
        response = handler_(request);
      }
    } catch (const std::exception& failure) {
      log::warn("http: {} {}: {}", request.method, request.path.substr(0, 100), failure.what());
      response = text_response(500, "internal error; the log has the details");
    }
    done(std::move(response));
  }
  bool may_stream(const asio::ip::address& address) const override {
    return count_streams() < options_.limits.streams &&
           count_streams(address) < options_.limits.streams_of_address;
  }
  const Limits& limits() const override { return options_.limits; }

 private:
  std::optional<Response> refuse_or_login(const Request& request) {
    if (auto refused = refuse(request, policy_)) return refused;
    if (!login_ || std::ranges::count(options_.open_paths, request.path) > 0) return std::nullopt;
    return login_->admit(request, unix_time_s());
  }

  void accept() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
      if (!error && connections_.size() >= options_.limits.connections) close_an_idle_one();
      if (!error && connections_.size() < options_.limits.connections) {
        auto connection = std::make_shared<Connection>(std::move(socket), *this);
        connections_.push_back(connection);
        connection->read();
      }
      if (error == asio::error::operation_aborted) return;
      if (!error) return accept();
      // Most likely no file descriptors are left; open connections may end soon.
      pause_.expires_after(kPause);
      pause_.async_wait([this](beast::error_code ended) {
        if (!ended) accept();
      });
    });
  }
  /// Closes an idle connection: of the address that has the most connections, the one idle longest.
  /// Does nothing if every connection is busy.
  void close_an_idle_one() {
    std::map<asio::ip::address, std::size_t> of_address;
    std::shared_ptr<Connection> found;
    for (const auto& weak : connections_) {
      if (const auto one = weak.lock()) ++of_address[one->address()];
    }
    for (const auto& weak : connections_) {
      auto one = weak.lock();
      if (!one || !one->is_idle()) continue;
      const auto rank = [&](const Connection& connection) {
        return std::pair(of_address[connection.address()], steady_now() - connection.idle_since());
      };
      if (!found || rank(*one) > rank(*found)) found = std::move(one);
    }
    if (!found) return;
    found->close();
    std::erase_if(connections_, [&](const auto& weak) { return weak.lock() == found; });
  }
  /// The streams of `address`; nullopt: of all addresses.
  [[nodiscard]] std::size_t count_streams(
      const std::optional<asio::ip::address>& address = {}) const {
    return static_cast<std::size_t>(std::ranges::count_if(connections_, [&](const auto& weak) {
      const auto connection = weak.lock();
      return connection && connection->streams() && (!address || connection->address() == *address);
    }));
  }
  void tick() {
    ticker_.expires_after(options_.tick);
    ticker_.async_wait([this](beast::error_code error) {
      if (error) return;
      const std::size_t streams = count_streams();
      if (!slow_) {
        options_.timer(streams);
      } else if (!ticks_.exchange(true)) {
        const bool will_tick = slow_->run([this, streams] {
          ticks_ = false;
          options_.timer(streams);
        });
        if (!will_tick) ticks_ = false;
      }
      tick();
    });
  }

  const Options options_;
  const Handler handler_;
  Policy policy_;
  std::optional<Login> login_;
  std::string address_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer ticker_;
  asio::steady_timer pause_;
  std::deque<std::weak_ptr<Connection>> connections_;
  std::atomic<bool> ticks_ = false;  // a call of the timer is pending on the second thread
  std::unique_ptr<SlowAnswers> slow_;
  std::thread thread_;
};

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() {
  impl_->stop();
}

Result<std::unique_ptr<Server>> Server::start(Options options, Handler handler) {
  auto impl = std::make_shared<Impl>(std::move(options), std::move(handler));
  TAUT_TRY(impl->listen());
  impl->run();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const std::string& Server::address() const {
  return impl_->address();
}

void Server::publish(const std::string& piece) {
  impl_->publish(piece);
}

}  // namespace taut::http
