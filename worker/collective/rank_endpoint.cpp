#include "worker/collective/rank_endpoint.hpp"

#include <utility>

#include "common/net/security.hpp"
#include "worker/collective/all_reduce_group.hpp"

namespace taut::collective {
namespace {

// A rank's last messages are sent even if it ends.
constexpr Duration kLinger = std::chrono::seconds(2);
// What has arrived from a rank and was not read: the values that it has under way, and what its
// headers, its greetings and the frames' own bytes take. A rank that computes reads nothing for a
// while, so with fewer messages than these the others' would wait in their sockets.
constexpr Bytes kArrivedBytes{36ULL << 20U};
constexpr std::size_t kArrivedMessages = 320;
// A rank greets one that does not answer every 100 ms, each time with the whole agreement.
constexpr std::uint64_t kMaxHeaderBytes = GroupOptions::kMaxAgreement.value() + 1024;
static_assert(GroupOptions::kMaxWindow.value() + kArrivedMessages * kMaxHeaderBytes +
                  GroupOptions::kMaxMessage.value() <=
              kArrivedBytes.value());

/// Admits the other ranks, by their keys.
class RankAdmission final : public Admission {
 public:
  explicit RankAdmission(const RankBoard& board) : board_(board) {}
  std::shared_ptr<const Identity> find(std::string_view public_key) const override {
    const auto ranks = board_.newest();
    for (const GroupMember& member : ranks->members) {
      if (member.key != public_key) continue;
      return std::make_shared<Identity>(Identity{member.name, KeyRole::kWorker});
    }
    return nullptr;
  }

 private:
  const RankBoard& board_;
};

}  // namespace

Result<RankEndpoint> listen_as_rank(const std::string& at, bool with_keys, const RankBoard& board) {
  RankEndpoint rank;
  Security security = Security::insecure();
  if (with_keys) {
    security.own = make_key_pair();
    security.cluster_key = security.own.public_key;
    security.cluster_secret = security.own.secret_key;
    security.admission = std::make_shared<RankAdmission>(board);
    rank.place.set_key(security.own.public_key);
  }
  rank.context = std::make_unique<ZmqContext>(std::move(security));
  EndpointLimits limits;
  limits.linger = kLinger;
  limits.frame = kArrivedBytes;
  limits.arrived_messages = kArrivedMessages;
  rank.endpoint = rank.context->make_endpoint(limits);
  TAUT_TRY(const std::string address, rank.endpoint->bind(at));
  rank.place.set_address(address);
  return rank;
}

}  // namespace taut::collective
