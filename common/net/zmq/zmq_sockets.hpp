#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "common/net/data_token.hpp"
#include "common/net/endpoint.hpp"
#include "common/net/message.hpp"
#include "common/net/security.hpp"
#include "common/net/ucx/two_wires.hpp"
#include "common/net/zmq/connection_watch.hpp"
#include "common/net/zmq/handshake_watch.hpp"
#include "common/net/zmq/zmq_callers.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace taut {

/// Everything received from one socket: a listening ROUTER, or one DEALER for each connection.
class ZmqSockets final : public WaitingEndpoint {
 public:
  /// tokens  for a plain data plane, if this process listens; outlives this, as the watch does
  ZmqSockets(zmq::context_t& context, ConnectionWatch& watch, const Security& security,
             const std::optional<TokenKey>& tokens, EndpointLimits limits);
  ~ZmqSockets() override;
  ZmqSockets(const ZmqSockets&) = delete;
  ZmqSockets& operator=(const ZmqSockets&) = delete;

  void also_wait_for(int descriptor) override { other_ = descriptor; }
  void use_token(const std::optional<DataToken>& own) override { token_ = own; }
  void expect_key(const std::string& public_key) override { expected_key_ = public_key; }
  Result<std::string> bind(const std::string& address) override;
  Result<PeerId> connect(const std::string& address) override;
  void disconnect(PeerId peer) override;
  Result<void> send(PeerId to, Message message) override;
  std::uint64_t unread(PeerId peer) const override;
  std::string key_of(PeerId peer) const override;
  std::uint64_t unadmitted() const override { return unadmitted_; }
  std::optional<Refusal> refusal(PeerId peer) const override;
  bool has_reached(PeerId peer) const override;
  std::vector<PeerId> take_closed() override;
  std::optional<Incoming> receive(Duration wait) override;
  void wake() override;

 private:
  struct Dealer {
    Dealer(zmq::context_t& context, Proof proof, std::optional<DataToken> its_token)
        : socket(context, zmq::socket_type::dealer),
          handshakes(context, socket, proof),
          token(std::move(its_token)) {}
    PeerId peer;
    zmq::socket_t socket;
    HandshakeWatch handshakes;             // ends before the socket
    const std::optional<DataToken> token;  // nullopt: not on a plain data plane
  };
  [[nodiscard]] static int to_milliseconds(Duration wait);
  void set_limits(zmq::socket_t& socket) const;
  [[nodiscard]] Result<void> open_router();
  void close_router();
  [[nodiscard]] bool has_byte_limit() const;
  [[nodiscard]] Result<void> probe(const std::string& place) const;
  [[nodiscard]] std::optional<ProvedSecret> check(const std::string& routing_id,
                                                  const std::string& key,
                                                  const Frame& request) const;
  std::optional<Incoming> try_receive();
  std::optional<Incoming> receive_from(zmq::socket_t& socket, const Dealer* dealer);
  bool take_frames(zmq::socket_t& socket, zmq::message_t part, std::optional<int> accepted,
                   bool is_kept, Message& message);
  [[nodiscard]] std::shared_ptr<const Identity> holder_of(const std::string& key) const;
  void note_unadmitted();

  zmq::context_t& context_;
  ConnectionWatch& watch_;
  const Security& security_;
  const std::optional<TokenKey>& tokens_;
  std::optional<DataToken> token_;  // of connections that are made from now on
  std::string expected_key_;        // of the other sides; empty: the cluster's
  bool is_plain_ = false;           // the listening socket
  // The identity of each peer that this side connects to, in a cluster with keys.
  const std::shared_ptr<const Identity> cluster_ =
      std::make_shared<Identity>(Identity{"the cluster", KeyRole::kServer});
  const EndpointLimits limits_;
  const int wake_;
  int other_ = -1;  // a descriptor that is waited for too; -1: none
  zmq::socket_t router_;
  std::vector<std::unique_ptr<Dealer>> dealers_;
  std::uint64_t next_peer_ = 1;
  ZmqCallers callers_;
  std::uint64_t unadmitted_ = 0;  // messages
  std::size_t turn_ = 0;          // the socket that is polled first, so that none starves
};

}  // namespace taut
