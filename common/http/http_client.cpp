#include "common/http/http_client.hpp"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <utility>

namespace taut::http {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

}  // namespace

class HttpClient::Connection {
 public:
  explicit Connection(std::string address) : address_(std::move(address)) {}

  Result<Answer> post(const std::string& path, const std::string& json, Duration wait) {
    const TimePoint deadline = steady_now() + wait;
    const bool was_open = stream_.has_value();
    Result<Answer> answer = exchange(path, json, deadline);
    // A server closes connections that are idle too long: only a new one shows whether it answers.
    const bool may_be_old = was_open && !answer && answer.error().code == ErrorCode::kUnavailable;
    return may_be_old ? exchange(path, json, deadline) : std::move(answer);
  }

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  Result<Answer> exchange(const std::string& path, const std::string& json, TimePoint deadline) {
    error_code failed = stream_ ? error_code() : connect(deadline);
    bhttp::request<bhttp::string_body> request(bhttp::verb::post, path, 11);
    request.set(bhttp::field::host, address_);
    request.set(bhttp::field::content_type, "application/json");
    request.body() = json;
    request.prepare_payload();
    if (!failed) {
      failed = run(deadline, [&](auto done) { bhttp::async_write(*stream_, request, done); });
    }
    bhttp::response_parser<bhttp::string_body> parser;
    parser.body_limit(kMaxAnswer);
    if (!failed) {
      failed =
          run(deadline, [&](auto done) { bhttp::async_read(*stream_, buffer_, parser, done); });
    }
    if (failed) {
      stream_.reset();
      buffer_.clear();
      const bool is_late = failed == beast::error::timeout;
      return make_error(is_late ? ErrorCode::kTimeout : ErrorCode::kUnavailable,
                        fmt::format("{}{}: {}", address_, path, failed.message()));
    }
    const bool stays = parser.get().keep_alive();
    Answer answer{parser.get().result_int(), std::move(parser.get().body())};
    if (!stays) stream_.reset();
    return answer;
  }

  error_code connect(TimePoint deadline) {
    const auto colon = address_.rfind(':');
    if (colon == std::string::npos) return asio::error::invalid_argument;
    std::string host = address_.substr(0, colon);
    if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    error_code failed;
    tcp::resolver resolver(context_);
    const auto places = resolver.resolve(host, address_.substr(colon + 1), failed);
    if (failed) return failed;
    stream_.emplace(context_);
    failed = run(deadline, [&](auto done) {
      stream_->async_connect(places, [done](const error_code& error, const tcp::endpoint&) mutable {
        done(error, std::size_t{0});
      });
    });
    if (failed) stream_.reset();
    return failed;
  }

  /// Runs one operation until it ends or the deadline passes.
  template <class Start>
  error_code run(TimePoint deadline, const Start& start) {
    const Duration left = deadline - steady_now();
    if (left <= Duration::zero()) return beast::error::timeout;
    error_code result = asio::error::operation_aborted;
    stream_->expires_after(std::chrono::microseconds(left.count()));
    start([&result](const error_code& error, std::size_t) { result = error; });
    context_.restart();
    context_.run();
    return result;
  }

  const std::string address_;
  asio::io_context context_;
  std::optional<beast::tcp_stream> stream_;
  beast::flat_buffer buffer_;
};

HttpClient::HttpClient(std::string address)
    : connection_(std::make_unique<Connection>(std::move(address))) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

Result<Answer> HttpClient::post(const std::string& path, const std::string& json, Duration wait) {
  return connection_->post(path, json, wait);
}

const std::string& HttpClient::address() const {
  return connection_->address();
}

}  // namespace taut::http
