// The rows of a worker whose job sums among its workers: only keys of the other ranks get in.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "proto/collective/peer_message.hpp"
#include "tests/bench/strangers/port_rows.hpp"
#include "worker/collective/all_reduce_group.hpp"
#include "worker/collective/rank_endpoint.hpp"

namespace taut::strangers {
namespace {

using collective::AllReduceGroup;
using collective::GroupOptions;
using collective::Rank;

constexpr std::uint64_t kGroup = 77;

/// Rank 0 listens. Rank 1 is who may greet it, rank 2 who takes its name, rank 3 leaves while its
/// connection is open, and a fifth one has left before.
class RankPort final : public Port {
 public:
  explicit RankPort(test::GuardedCluster& cluster)
      : cluster_(cluster), rank_(collective::listen_as_rank("127.0.0.1:0", true, board_).value()) {
    for (KeyPair& key : keys_) key = make_key_pair();
    post(1, 5);
    post(2, 4);
    GroupOptions options;
    options.group = kGroup;
    options.rank = Rank(0);
    options.members = board_.newest()->members;
    group_ = std::make_unique<AllReduceGroup>(*rank_.endpoint, options);
    greeting_ = greeting_of(options);
    thread_ = std::thread([this] {
      while (!stops_) {
        (void)group_->poll();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
  }
  ~RankPort() override {
    stops_ = true;
    thread_.join();
  }
  RankPort(const RankPort&) = delete;
  RankPort& operator=(const RankPort&) = delete;

  std::vector<Stranger> strangers() override {
    std::vector<Stranger> rows;
    const auto add = [&](const char* who, const char* what, const Security& key) -> Stranger& {
      return rows.emplace_back(
          Stranger{.port = "rank",
                   .who = who,
                   .what = what,
                   .address = rank_.place.address(),
                   .key = key,
                   .message = [greeting = greeting_] { return encode(greeting); },
                   .is_granted = is_accepted});
    };
    Security elsewhere = of(1);
    elsewhere.cluster_key = make_key_pair().public_key;
    add("rank 1", "greet as rank 1", of(1)).may = true;
    add("none", "greet as rank 1", Security::insecure());
    add("right, for another rank", "greet as rank 1", elsewhere);
    add("unknown", "greet as rank 1", with(make_key_pair()));
    add("wrong role: a worker's of the cluster", "greet as rank 1",
        with(cluster_.admit("rank1", KeyRole::kWorker).own));
    add("revoked: it has left the group", "greet as rank 1", of(4));
    Stranger& late = add("revoked, connection open", "greet as rank 3", of(3));
    late.message = [greeting = greeting_]() mutable {
      greeting.rank = 3;
      return encode(greeting);
    };
    late.revoke = [this] { post(3, 3); };
    add("another's: rank 2", "greet as rank 1", of(2)).is_dropped = true;
    return rows;
  }

  void end_admission() override { rank_.context->end_admission(); }

 private:
  static bool is_accepted(const Message& answer) {
    const auto message = decode_peer(answer);
    if (!message) return true;
    const auto* reply = std::get_if<pb::PeerHelloReply>(&message.value().body);
    return reply == nullptr || reply->accepted();
  }

  /// Who connects to rank 0 with this pair.
  [[nodiscard]] Security with(const KeyPair& own) const {
    Security security;
    security.own = own;
    security.cluster_key = rank_.place.key();
    return security;
  }
  [[nodiscard]] Security of(std::size_t rank) const { return with(keys_[rank]); }

  /// From the coordinator: the first `count` are ranks.
  void post(std::uint64_t number, std::uint32_t count) {
    pb::WorkerJob job;
    job.mutable_group()->set_number(number);
    for (std::uint32_t i = 0; i < count; ++i) {
      pb::RankGroup::Rank& rank = *job.mutable_group()->add_ranks();
      rank.set_worker(i);
      rank.set_name("rank" + std::to_string(i));
      rank.mutable_place()->set_address(i == 0 ? rank_.place.address() : "127.0.0.1:1");
      rank.mutable_place()->set_key(i == 0 ? rank_.place.key() : keys_[i].public_key);
    }
    board_.post(job);
  }

  /// What a real rank of the group says first to rank 0, written down at a separate port, in the
  /// name of rank 1.
  static PeerMessage greeting_of(GroupOptions options) {
    ZmqContext context(Security::insecure());
    const auto listener = context.make_endpoint();
    options.members[0].address = listener->bind("127.0.0.1:0").value();
    for (collective::GroupMember& member : options.members) member.key.clear();
    // In a ring the last one sends to the first.
    options.rank = Rank(static_cast<std::uint32_t>(options.members.size() - 1));
    const auto caller = context.make_endpoint();
    AllReduceGroup group(*caller, options);
    std::thread connecting([&] { (void)group.connect(std::chrono::milliseconds(500)); });
    PeerMessage greeting;
    while (const auto got = listener->receive(std::chrono::seconds(2))) {
      const auto message = decode_peer(got->message);
      if (!message || !std::holds_alternative<pb::PeerHello>(message.value().body)) continue;
      greeting = message.value();
      greeting.rank = 1;
      break;
    }
    connecting.join();
    return greeting;
  }

  test::GuardedCluster& cluster_;
  std::array<KeyPair, 5> keys_;
  collective::RankBoard board_;
  collective::RankEndpoint rank_;
  std::unique_ptr<AllReduceGroup> group_;
  PeerMessage greeting_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Port> rank_port(test::GuardedCluster& cluster) {
  return std::make_unique<RankPort>(cluster);
}

}  // namespace taut::strangers
