#include "common/net/ucx/ucx_endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"
#include "common/net/ucx/ucx_engine.hpp"
#include "common/net/ucx/ucx_mailbox.hpp"

namespace taut {
namespace {

// The unread bytes of all connections of a key count as if this many of them shared the bytes, as
// with ZeroMQ.
constexpr std::uint64_t kKeySharers = 4;

class UcxEndpoint final : public WatchedEndpoint {
 public:
  UcxEndpoint(const Security& security, const std::optional<TokenKey>& tokens,
              EndpointLimits limits)
      : security_(security),
        tokens_(tokens),
        limits_(limits),
        mailbox_(std::min(limits.queued_messages, limits.arrived_messages)) {}

  [[nodiscard]] Result<void> start() {
    UcxEngine::Settings settings;
    settings.limits = limits_;
    if (!security_.is_insecure() && tokens_) {
      settings.tokens = &*tokens_;
      settings.admission = security_.admission;
    }
    TAUT_TRY(engine_, UcxEngine::start(std::move(settings), mailbox_));
    return ok();
  }

  void use_token(const std::optional<DataToken>& own) override { token_ = own; }
  Result<std::string> bind(const std::string& address) override;
  Result<PeerId> connect(const std::string& address) override;
  void disconnect(PeerId peer) override;
  Result<void> send(PeerId to, Message message) override;
  std::uint64_t unread(PeerId peer) const override;
  std::string key_of(PeerId peer) const override;
  std::uint64_t unadmitted() const override { return unadmitted_; }
  std::optional<Refusal> refusal(PeerId peer) const override { return mailbox_.refusal(peer); }
  std::optional<Incoming> receive(Duration wait) override;
  void wake() override { mailbox_.wake(); }
  int descriptor() override { return mailbox_.descriptor(); }

 private:
  using Peers = std::unordered_map<PeerId, std::shared_ptr<UcxPeer>>;

  void take_news();
  void note_unadmitted(std::uint64_t messages);
  [[nodiscard]] std::optional<Incoming> incoming_of(UcxMailbox::Letter letter);
  [[nodiscard]] std::shared_ptr<const Identity> holder_of(const std::string& key) const {
    return key.empty() ? nullptr : security_.admission->find(key);
  }
  /// Errors    unavailable: encryption is required
  [[nodiscard]] Result<void> check_token(const std::string& address) const;

  const Security& security_;
  const std::optional<TokenKey>& tokens_;
  const EndpointLimits limits_;
  const std::shared_ptr<const Identity> cluster_ =
      std::make_shared<Identity>(Identity{"the cluster", KeyRole::kServer});
  std::optional<DataToken> token_;  // of connections that are made from now on
  Peers dialed_;
  Peers callers_;
  std::uint64_t unadmitted_ = 0;  // messages
  UcxMailbox mailbox_;
  std::unique_ptr<UcxEngine> engine_;  // ends before the mailbox
};

Result<void> UcxEndpoint::check_token(const std::string& address) const {
  if (security_.is_insecure() || token_) return ok();
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("{}{}: UCX does not encrypt: it is used under data_security: TOKEN "
                                "alone",
                                kUcxScheme, address));
}

Result<std::string> UcxEndpoint::bind(const std::string& address) {
  TAUT_TRY(check_token(address));
  const bool can_listen =
      security_.is_insecure() ||
      (security_.admission && !security_.cluster_secret.empty() && tokens_.has_value());
  if (!can_listen) {
    return invalid(
        "this key may not listen; make one that may with \"tautline keys add NAME --role server\"");
  }
  return engine_->listen(address);
}

Result<PeerId> UcxEndpoint::connect(const std::string& address) {
  TAUT_TRY(check_token(address));
  if (address.rfind(':') == std::string::npos) {
    return invalid(fmt::format("{}: cannot connect there: no port", address));
  }
  auto peer = std::make_shared<UcxPeer>();
  peer->id = new_ucx_number(true);
  peer->is_dialed = true;
  dialed_.emplace(peer->id, peer);
  engine_->dial(peer, address, security_.is_insecure() ? std::nullopt : token_);
  return peer->id;
}

void UcxEndpoint::disconnect(PeerId peer) {
  if (dialed_.erase(peer) == 0) return;
  engine_->hang_up(peer);
  mailbox_.forget(peer);
}

std::uint64_t UcxEndpoint::unread(PeerId peer) const {
  const auto caller = callers_.find(peer);
  if (caller == callers_.end()) return 0;
  const UcxPeer& one = *caller->second;
  return one.key_bytes ? std::max<std::uint64_t>(one.bytes, *one.key_bytes / kKeySharers)
                       : one.bytes.load();
}

std::string UcxEndpoint::key_of(PeerId peer) const {
  const auto caller = callers_.find(peer);
  return caller == callers_.end() ? std::string() : caller->second->key;
}

Result<void> UcxEndpoint::send(PeerId to, Message message) {
  TAUT_CHECK(!message.frames.empty(), "a message has at least one frame");
  take_news();
  const auto full = [&] {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the queue to peer {} is full", to.value()));
  };
  const auto gone = [&] {
    return make_error(ErrorCode::kNotFound, fmt::format("peer {} has disconnected", to.value()));
  };
  std::uint64_t bytes = 0;
  for (const Frame& frame : message.frames) bytes += frame.size();
  std::shared_ptr<UcxPeer> peer;
  if (const auto dialed = dialed_.find(to); dialed != dialed_.end()) {
    peer = dialed->second;
  } else if (const auto caller = callers_.find(to); caller != callers_.end()) {
    peer = caller->second;
    // Nothing is sent to a key that was revoked meanwhile.
    if (!security_.is_insecure() && !holder_of(peer->key)) {
      engine_->hang_up(to);
      callers_.erase(caller);
      return gone();
    }
    const std::uint64_t waiting = unread(to);
    if (waiting > 0 && waiting + bytes > limits_.unread.value()) return full();
  } else {
    return gone();
  }
  if (peer->messages >= limits_.queued_messages) return full();
  engine_->send(std::make_shared<UcxOutgoing>(std::move(peer), std::move(message), bytes));
  return ok();
}

/// Adds the callers that connected, and removes those that disconnected.
void UcxEndpoint::take_news() {
  UcxMailbox::News news = mailbox_.take_news();
  for (auto& caller : news.callers) callers_.emplace(caller->id, caller);
  for (const PeerId gone : news.gone) callers_.erase(gone);
}

/// The 1st, 2nd, 4th, 8th ...: a peer cannot fill the log.
void UcxEndpoint::note_unadmitted(std::uint64_t messages) {
  for (; messages > 0; --messages) {
    if (!std::has_single_bit(++unadmitted_)) continue;
    log::warn(
        "dropped a message with a key or a secret that is not, or no longer, admitted ({} "
        "so far)",
        unadmitted_);
  }
}

/// nullopt if its sender's key was revoked.
std::optional<Incoming> UcxEndpoint::incoming_of(UcxMailbox::Letter letter) {
  Incoming incoming;
  incoming.from = letter.from->id;
  incoming.message = std::move(letter.message);
  if (security_.is_insecure()) return incoming;
  if (letter.from->is_dialed) {
    incoming.sender = cluster_;
    return incoming;
  }
  incoming.sender = holder_of(letter.from->key);
  incoming.scope = letter.from->scope;
  if (incoming.sender) return incoming;
  note_unadmitted(1);
  return std::nullopt;
}

std::optional<Incoming> UcxEndpoint::receive(Duration wait) {
  const TimePoint until = steady_now() + wait;
  while (true) {
    bool was_full = false;
    auto letter = mailbox_.take(until, was_full);
    if (was_full) engine_->resume();
    take_news();
    note_unadmitted(mailbox_.take_unadmitted());
    if (!letter) return std::nullopt;
    // The peer was forgotten after it sent this.
    if (letter->from->is_dialed && !dialed_.contains(letter->from->id)) continue;
    if (auto incoming = incoming_of(std::move(*letter))) return incoming;
  }
}

}  // namespace

Result<std::unique_ptr<WatchedEndpoint>> make_ucx_endpoint(const Security& security,
                                                           const std::optional<TokenKey>& tokens,
                                                           EndpointLimits limits) {
  auto endpoint = std::make_unique<UcxEndpoint>(security, tokens, limits);
  TAUT_TRY(endpoint->start());
  return std::unique_ptr<WatchedEndpoint>(std::move(endpoint));
}

}  // namespace taut
