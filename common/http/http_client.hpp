#pragma once

#include <memory>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"

namespace taut::http {

/// The answer to a request.
struct Answer {
  unsigned status = 0;
  std::string body;
};

/// A connection to one HTTP/1.1 server, opened when first needed and reopened after a failure.
/// Thread    one
class HttpClient {
 public:
  /// The largest answer that is accepted.
  static constexpr std::size_t kMaxAnswer = 256ULL << 20U;

  /// address  "host:port"
  explicit HttpClient(std::string address);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  /// Posts a JSON text and waits for the answer, connecting included.
  /// Errors    timeout; unavailable: no connection, or it broke; in both cases the server may have
  ///           carried out the request, or may still do so
  [[nodiscard]] Result<Answer> post(const std::string& path, const std::string& json,
                                    Duration wait);

  [[nodiscard]] const std::string& address() const;

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace taut::http
