#include "proto/node_check/link_facts.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/net/reach.hpp"
#include "common/net/ucx/ucx_endpoint.hpp"
#include "proto/data_message.hpp"
#include "proto/wire_version.hpp"

namespace taut {
namespace {

constexpr Duration kConnectWithin = std::chrono::seconds(2);
constexpr Duration kAnswerWithin = std::chrono::seconds(3);
// A frame of a transfer queues behind earlier ones, on a link that others share.
constexpr Duration kFrameWithin = std::chrono::seconds(10);
constexpr Duration kTransferWithin = std::chrono::seconds(2);
constexpr Duration kStep = std::chrono::milliseconds(100);
constexpr std::uint64_t kPadding = std::uint64_t{256} << 10U;
constexpr int kRoundTrips = 4;
// Hellos sent and not answered: enough to fill a link, and little memory at the shard.
constexpr std::uint64_t kUnderWay = 8;

/// One connection to a shard that says hello, as often as asked.
class Greeter {
 public:
  Greeter(ZmqContext& context, const std::optional<DataToken>& secret, const HelloSender& sender,
          const std::atomic<bool>& given_up)
      : endpoint_(context.make_endpoint()), sender_(sender), given_up_(given_up) {
    endpoint_->use_token(secret);
  }

  [[nodiscard]] Result<void> connect(const std::string& address) {
    TAUT_TRY(peer_, endpoint_->connect(address));
    return ok();
  }

  [[nodiscard]] Result<void> send(std::uint64_t padding) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_build(build_name());
    hello.set_role("check");
    hello.mutable_padding()->assign(padding, '\0');
    return endpoint_->send(peer_, encode(DataMessage{sender_.job, sender_.worker,
                                                     sender_.incarnation, std::move(hello)}));
  }

  /// Waits for one answer. Any answer will do: a hello for no job must be refused.
  [[nodiscard]] Result<void> await(TimePoint until) {
    while (steady_now() < until && !given_up_) {
      const auto incoming = endpoint_->receive(std::min(kStep, until - steady_now()));
      if (const auto refusal = endpoint_->refusal(peer_); refusal) {
        return make_error(ErrorCode::kUnavailable, refusal->reason);
      }
      if (!incoming) continue;
      const auto message = decode_data(incoming->message);
      if (!message) return message.error();
      if (std::holds_alternative<pb::DataHelloReply>(message.value().body)) return ok();
    }
    return make_error(ErrorCode::kTimeout,
                      "accepts connections and answers no hello: another program, or this "
                      "process's key is not admitted there");
  }

 private:
  std::unique_ptr<Endpoint> endpoint_;
  const HelloSender sender_;
  const std::atomic<bool>& given_up_;
  PeerId peer_;
};

Result<double> round_trip(Greeter& greeter) {
  double shortest = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    const TimePoint sent = steady_now();
    TAUT_TRY(greeter.send(0));
    TAUT_TRY(greeter.await(sent + kAnswerWithin));
    const double took = seconds(steady_now() - sent);
    // The first one includes connecting.
    shortest = i <= 1 ? took : std::min(shortest, took);
  }
  return shortest;
}

Result<void> transfer(Greeter& greeter, std::uint64_t bytes, pb::LinkFacts& facts) {
  const std::uint64_t count = (bytes + kPadding - 1) / kPadding;
  const TimePoint began = steady_now();
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  while (answered < sent || (sent < count && steady_now() - began < kTransferWithin)) {
    if (sent < count && sent - answered < kUnderWay && steady_now() - began < kTransferWithin) {
      TAUT_TRY(greeter.send(kPadding));
      ++sent;
      continue;
    }
    TAUT_TRY(greeter.await(steady_now() + kFrameWithin));
    ++answered;
  }
  facts.set_sent_bytes(answered * kPadding);
  facts.set_sent_s(seconds(steady_now() - began));
  return ok();
}

Result<void> examine(ZmqContext& context, const std::optional<DataToken>& secret,
                     const HelloSender& sender, std::uint64_t bytes,
                     const std::atomic<bool>& given_up, pb::LinkFacts& facts) {
  const bool is_ucx = facts.address().starts_with(kUcxScheme);
  TAUT_TRY(try_to_reach(is_ucx ? facts.address().substr(kUcxScheme.size()) : facts.address(),
                        kConnectWithin));
  facts.set_connects(true);
  Greeter greeter(context, secret, sender, given_up);
  TAUT_TRY(greeter.connect(facts.address()));
  TAUT_TRY(const double took, round_trip(greeter));
  facts.set_answers(true);
  facts.set_round_trip_s(took);
  return bytes > 0 ? transfer(greeter, bytes, facts) : ok();
}

}  // namespace

std::vector<pb::LinkFacts> examine_links(ZmqContext& context,
                                         const std::optional<DataToken>& secret,
                                         const std::vector<std::string>& shards,
                                         std::uint64_t bytes, TimePoint until,
                                         const std::atomic<bool>& given_up,
                                         const HelloSender& sender) {
  std::vector<pb::LinkFacts> links;
  for (const std::string& address : shards) {
    pb::LinkFacts& facts = links.emplace_back();
    facts.set_address(address);
    if (steady_now() >= until || given_up) {
      facts.set_error("was not reached in the time of the check");
      continue;
    }
    const auto examined = examine(context, secret, sender, bytes, given_up, facts);
    if (!examined) facts.set_error(examined.error().message);
  }
  return links;
}

}  // namespace taut
