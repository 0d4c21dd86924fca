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

/// A request about parts.
/// folder  the checkpoint's, as its job names it
/// token   of the job's submission
[[nodiscard]] pb::PartRequest part_request(pb::PartRequest::Kind kind, std::uint64_t token,
                                           const std::string& folder, const std::string& file = "");

/// Asks servers about their parts of coded checkpoints, through the sockets of their shards.
/// Unanswered requests are sent again until the server has been silent for too long, or has worked
/// on one for too long.
/// Thread    any; a call waits for the end of another one
class PartClient {
 public:
  static constexpr Duration kAgain{3'000'000};
  static constexpr Duration kMaxSilence{20'000'000};
  /// A disk that takes longer than this for one request counts as lost.
  static constexpr Duration kMaxRequestTime{600'000'000};
  /// The most bytes that are posted and not answered.
  static constexpr std::uint64_t kWindow = 8ULL << 20U;

  /// silence  time after which a server counts as lost; one that reports that it is working is not
  ///          silent
  explicit PartClient(std::unique_ptr<Endpoint> endpoint, Duration silence = kMaxSilence)
      : endpoint_(std::move(endpoint)), silence_(silence) {}

  /// Sends a request and waits for the answer.
  /// Errors    timeout: with the address; closed: stop() was called; those of the server
  [[nodiscard]] Result<DataPartReply> ask(const std::string& address, pb::PartRequest request,
                                          Frame payload = {});

  /// Ends every wait, now and later.
  void stop() { stopping_ = true; }

 private:
  friend class PartPosts;
  struct Pending {
    std::uint64_t owner = 0;  // of posts; 0: from ask(), and its answer is kept
    std::string address;
    PeerId peer;
    DataMessage message;
    std::uint64_t bytes = 0;
    TimePoint begun;
    TimePoint sent;
  };
  [[nodiscard]] Result<void> post(std::uint64_t owner, const std::string& address,
                                  pb::PartRequest request, Frame payload);
  [[nodiscard]] Result<void> settle(std::uint64_t owner);
  void discard(std::uint64_t owner);

  [[nodiscard]] Result<std::uint64_t> send(std::uint64_t owner, const std::string& address,
                                           pb::PartRequest request, Frame payload);
  /// Receives for a moment, and repeats requests that have waited for long. Errors: closed.
  [[nodiscard]] Result<void> step();
  void receive(const Incoming& incoming);
  /// Why a request will not be answered any more; empty if it may be.
  [[nodiscard]] std::string why_lost(const Pending& pending, TimePoint now) const;
  void end(std::uint64_t id, Result<DataPartReply> result);
  [[nodiscard]] Result<void> settle_below(std::uint64_t owner, std::uint64_t bytes);
  [[nodiscard]] bool is_settled(std::uint64_t owner, std::uint64_t bytes) const;

  const std::unique_ptr<Endpoint> endpoint_;
  const Duration silence_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> owners_ = 0;
  std::mutex mutex_;  // guards what follows, and the endpoint
  std::map<std::string, PeerId> peers_;
  std::map<std::string, TimePoint> heard_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Pending> pending_;
  std::map<std::uint64_t, Result<DataPartReply>> answers_;  // to requests of ask()
  std::map<std::uint64_t, Error> failed_;                   // the first of each owner's posts
};

/// Requests that are sent without waiting for each answer. Those that are not settled when this is
/// destroyed are given up.
/// Thread    one at a time
class PartPosts {
 public:
  /// client  outlives it
  explicit PartPosts(PartClient& client) : client_(client), owner_(++client.owners_) {}
  ~PartPosts() { client_.discard(owner_); }
  PartPosts(const PartPosts&) = delete;
  PartPosts& operator=(const PartPosts&) = delete;

  /// Sends, and waits only while the window is full.
  /// Errors    as PartClient::ask(), perhaps of an earlier one
  [[nodiscard]] Result<void> post(const std::string& address, pb::PartRequest request,
                                  Frame payload = {}) {
    return client_.post(owner_, address, std::move(request), std::move(payload));
  }
  /// Waits until everything that was posted is answered.
  /// Errors    as PartClient::ask(), of the first that failed
  [[nodiscard]] Result<void> settle() { return client_.settle(owner_); }

 private:
  PartClient& client_;
  const std::uint64_t owner_;
};

}  // namespace taut::server
