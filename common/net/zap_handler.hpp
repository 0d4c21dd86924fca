#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "common/net/security.hpp"

namespace taut {

/// Answers ZeroMQ's question, for each handshake in one context, whether a key is admitted; its
/// sockets then have the key in the property "User-Id" of each message. It must exist before a
/// socket of the context listens: ZeroMQ's CURVE without a handler admits any key, where sockets do
/// not insist on one as ours do.
/// Source    https://rfc.zeromq.org/spec/27/
class ZapHandler {
 public:
  /// context  ZeroMQ's; outlives this
  ZapHandler(void* context, std::shared_ptr<Admission> admission);
  /// Ends and joins the thread. From then on no handshake in the context succeeds.
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

 private:
  void run();
  void answer_one();

  const std::shared_ptr<Admission> admission_;
  const int wake_;  // an eventfd
  void* socket_ = nullptr;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace taut
