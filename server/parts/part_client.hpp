#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/net/endpoint.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "proto/data_message.hpp"

namespace taut::server {

/// Asks servers about their parts of coded checkpoints, through the sockets of their shards. What
/// is not answered is sent again, until the server has been silent for too long.
/// Thread    any; a call waits for the end of another one
class PartClient {
 public:
  static constexpr Duration kAgain{3'000'000};
  static constexpr Duration kSilence{20'000'000};
  /// Bytes that are posted and not answered.
  static constexpr std::uint64_t kWindow = 8ULL << 20U;

  /// silence  after which a server counts as lost
  explicit PartClient(std::unique_ptr<Endpoint> endpoint, Duration silence = kSilence)
      : endpoint_(std::move(endpoint)), silence_(silence) {}

  /// Waits for the answer.
  /// Errors    timeout: with the address; closed: stop() was called; those of the server
  [[nodiscard]] Result<DataPartReply> ask(const std::string& address, pb::PartRequest request,
                                          Frame payload = {});
  /// Sends, and waits only while the window is full. Errors: as ask(), perhaps of an earlier one.
  [[nodiscard]] Result<void> post(const std::string& address, pb::PartRequest request,
                                  Frame payload = {});
  /// Waits until everything that was posted is answered.
  /// Errors    as ask(), of the first that failed
  [[nodiscard]] Result<void> settle();

  /// Ends every wait, now and later.
  void stop() { stopping_ = true; }

 private:
  struct Pending {
    std::string address;
    PeerId peer;
    DataMessage message;
    std::uint64_t bytes = 0;
    TimePoint begun;
    TimePoint sent;
    bool is_asked = false;  // its answer is kept
  };
  [[nodiscard]] Result<std::uint64_t> send(const std::string& address, pb::PartRequest request,
                                           Frame payload, bool is_asked);
  /// Receives for a moment, and sends again what waits for long. Errors: timeout; closed.
  [[nodiscard]] Result<void> step();
  void receive(const Incoming& incoming);
  [[nodiscard]] Result<void> settle_below(std::uint64_t bytes);
  void forget_all();

  const std::unique_ptr<Endpoint> endpoint_;
  const Duration silence_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;  // guards what follows, and the endpoint
  std::map<std::string, PeerId> peers_;
  std::map<std::string, TimePoint> heard_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Pending> pending_;
  std::uint64_t waiting_bytes_ = 0;
  std::map<std::uint64_t, DataPartReply> answers_;
  std::optional<Error> failed_;  // of what was posted
};

}  // namespace taut::server
