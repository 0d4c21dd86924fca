#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/net/endpoint.hpp"

namespace taut {

/// A peer, shared by the endpoint's owner and its engine.
struct UcxPeer {
  using Count = std::atomic<std::uint64_t>;

  /// Count what is queued for it and not sent yet.
  void add(std::uint64_t more) {
    ++messages;
    bytes += more;
    if (key_bytes) *key_bytes += more;
  }
  void remove(std::uint64_t less) {
    --messages;
    bytes -= less;
    if (key_bytes) *key_bytes -= less;
  }

  PeerId id;
  bool is_dialed = false;                     // this side has connected to it
  std::string key{};                          // a caller's; empty: no keys, or dialed
  std::shared_ptr<const TokenScope> scope{};  // a caller's on a plain data plane
  std::shared_ptr<Count> key_bytes{};         // of all peers with its key; nullptr: no keys
  Count messages = 0;
  Count bytes = 0;
};

/// What an engine hands to its endpoint's owner.
/// Thread    any
class UcxMailbox {
 public:
  struct Letter {
    std::shared_ptr<UcxPeer> from;
    Message message;
  };

  /// limit  number of waiting messages from which on is_full() is true
  /// Throws std::runtime_error when the process has no file descriptors left.
  explicit UcxMailbox(std::size_t limit);
  ~UcxMailbox();
  UcxMailbox(const UcxMailbox&) = delete;
  UcxMailbox& operator=(const UcxMailbox&) = delete;

  void put(std::shared_ptr<UcxPeer> from, Message message);
  /// A caller has connected, or its connection has ended.
  void note_caller(std::shared_ptr<UcxPeer> caller);
  void note_gone(PeerId caller);
  /// nullopt: the peer accepts this side.
  void note_refusal(PeerId peer, std::optional<Refusal> refusal);
  void note_unadmitted();
  [[nodiscard]] bool is_full() const;

  /// The next message, waiting for it until `until`. nullopt: none, or the wait was interrupted.
  /// was_full  set to whether the mailbox was full
  [[nodiscard]] std::optional<Letter> take(TimePoint until, bool& was_full);
  /// Callers that have connected or disconnected since the last call.
  struct News {
    std::vector<std::shared_ptr<UcxPeer>> callers;
    std::vector<PeerId> gone;
  };
  [[nodiscard]] News take_news();
  [[nodiscard]] std::optional<Refusal> refusal(PeerId peer) const;
  void forget(PeerId peer);
  /// The number of messages with unadmitted secrets since the last call.
  [[nodiscard]] std::uint64_t take_unadmitted() { return unadmitted_.exchange(0); }
  void wake();
  /// Readable while there is something to take.
  [[nodiscard]] int descriptor();

 private:
  void signal();

  const std::size_t limit_;
  const int descriptor_;
  std::atomic<std::uint64_t> unadmitted_ = 0;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable filled_;
  std::deque<Letter> letters_;
  News news_;
  std::map<PeerId, Refusal> refusals_;
  bool is_woken_ = false;
  bool is_watched_ = false;   // the descriptor is in use
  bool is_readable_ = false;  // the descriptor
};

}  // namespace taut
