#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/net/data_token.hpp"
#include "common/net/security.hpp"

namespace taut {

/// Decides for ZeroMQ, for each handshake in one context, whether a key is admitted, or on a plain
/// data plane the holder of a secret; each message then has the key in its property "User-Id".
/// It must exist before a
/// socket of the context listens: without a handler, ZeroMQ's CURVE admits any key, unless sockets
/// insist on a handler, as ours do.
/// Source    https://rfc.zeromq.org/spec/27/
class ZapHandler {
 public:
  /// context  ZeroMQ's; outlives this
  /// tokens   of a plain data plane; nullopt: this cluster has none
  ZapHandler(void* context, std::shared_ptr<Admission> admission, std::optional<TokenKey> tokens);
  /// Ends and joins the thread. From then on no handshake in the context succeeds.
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

 private:
  void run();
  void answer_one();
  [[nodiscard]] std::string key_in(const std::vector<std::string>& request) const;

  const std::shared_ptr<Admission> admission_;
  const std::optional<TokenKey> tokens_;
  const int wake_;  // an eventfd
  void* socket_ = nullptr;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace taut
