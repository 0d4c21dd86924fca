#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/net/ucx/ucx_connection.hpp"
#include "common/net/ucx/ucx_mailbox.hpp"
#include "common/net/ucx/ucx_worker.hpp"

namespace taut {

/// The thread that sends and receives for one endpoint: it owns the UCP worker and the
/// connections. Like ZeroMQ's I/O thread, it works while the endpoint's owner computes.
/// Thread    any, for all public functions
class UcxEngine {
 public:
  struct Settings {
    EndpointLimits limits;
    /// Checks callers' secrets; nullptr: no secrets here.
    const TokenKey* tokens = nullptr;
    std::shared_ptr<Admission> admission;
  };

  /// mailbox   outlives the engine
  /// Errors    as UcxWorker::open()
  [[nodiscard]] static Result<std::unique_ptr<UcxEngine>> start(Settings settings,
                                                                UcxMailbox& mailbox);
  /// Queued messages are still sent, for at most limits.linger.
  ~UcxEngine();
  UcxEngine(const UcxEngine&) = delete;
  UcxEngine& operator=(const UcxEngine&) = delete;

  /// As Endpoint::bind().
  [[nodiscard]] Result<std::string> listen(const std::string& address);
  /// token     shown to the other side; nullopt: none
  void dial(std::shared_ptr<UcxPeer> peer, std::string address, std::optional<DataToken> token);
  /// Forgets a peer, dialed or not.
  void hang_up(PeerId peer);
  void send(std::shared_ptr<UcxOutgoing> message);
  /// Must be called when the mailbox has room again.
  void resume();

 private:
  using State = UcxConnection::State;
  using Command = std::function<void()>;

  UcxEngine(Settings settings, UcxMailbox& mailbox);
  void post(Command command);
  void wake();
  void run();
  bool execute();
  bool move();
  void sleep();
  void finish();
  void tick(TimePoint now);
  void be_due(TimePoint when) { next_due_ = std::min(next_due_, when); }

  // Connections.
  UcxConnection* find(std::uint64_t number);
  UcxConnection* find(ucp_ep_h handle);
  void redial(UcxConnection& connection);
  void accept(ucp_conn_request_h request);
  void make_room();
  void lose(PeerId number, const std::string& why);
  void lose_later(const UcxConnection& connection, std::string why) {
    lost_.emplace_back(connection.number, std::move(why));
  }
  bool handle_events();

  // Parts.
  ucs_status_t take_part(std::span<const std::byte> header, void* data, std::size_t bytes,
                         bool is_large, ucp_ep_h from);
  void take_hello(const ReceivedPart& hello, ucp_ep_h from);
  void take_welcome(UcxConnection& connection, const UcxPart& welcome);
  [[nodiscard]] std::shared_ptr<UcxPeer> prove(const ReceivedPart& hello, UcxConnection& caller);
  ucs_status_t take_data(UcxConnection& connection, const UcxPart& part, void* data,
                         std::size_t bytes, bool is_large);
  ucs_status_t take_place(UcxConnection& connection, const UcxPart& part, void* data,
                          std::size_t bytes, bool is_large);
  void fetch(UcxConnection& connection, const UcxPart& part, void* data, std::size_t bytes);
  void fetch_postponed(UcxConnection& connection);
  void assemble(UcxConnection& connection, const UcxPart& part, const Buffer& data);
  void deliver(UcxConnection& connection);
  void send_part(UcxConnection& connection, const UcxPart& part,
                 std::span<const std::byte> data = {}, std::shared_ptr<const void> keeps = {},
                 bool is_large = false);
  void send_now(UcxConnection& connection, const std::shared_ptr<UcxOutgoing>& outgoing);

  const Settings settings_;
  UcxMailbox& mailbox_;
  BufferPool pool_;
  std::unique_ptr<UcxWorker> worker_;
  std::unordered_map<std::uint64_t, UcxConnection> connections_;  // by their numbers
  std::unordered_map<ucp_ep_h, std::uint64_t> by_handle_;
  std::unordered_map<std::uint64_t, std::uint64_t> by_own_;  // UcxConnection::own
  std::map<std::string, std::weak_ptr<UcxPeer::Count>> bytes_of_key_;
  std::uint64_t heard_ = 0;
  std::size_t callers_ = 0;
  TimePoint next_due_ = TimePoint::never();
  // Noted by callbacks, for handle_events().
  std::vector<ucp_conn_request_h> requests_;
  std::vector<std::pair<ucp_ep_h, std::string>> broken_;
  std::vector<std::pair<PeerId, std::string>> lost_;
  bool stops_ = false;

  const int wake_;
  std::mutex mutex_;  // guards the next two
  std::deque<Command> commands_;
  bool is_asleep_ = false;
  std::thread thread_;
};

}  // namespace taut
