// The rows of a follower that passes models on. Any key that may read may ask it.
#include <string>

#include "tests/bench/strangers/port_rows.hpp"
#include "worker/follower/follower.hpp"

namespace taut::strangers {
namespace {

class RelayPort final : public Port {
 public:
  explicit RelayPort(test::GuardedCluster& cluster)
      : cluster_(cluster),
        follower_(Follower::open({.coordinator = cluster.coordinator(),
                                  .job = JobId(7),
                                  .name = "relay",
                                  .relay = "127.0.0.1:0",
                                  .security = cluster.listening()})
                      .value()) {}

  std::vector<Stranger> strangers() override {
    DataMessage question{JobId(7), WorkerId(), Incarnation(), pb::Describe()};
    return usual_strangers(cluster_, {.port = "relay",
                                      .what = "which versions it has",
                                      .address = follower_->address(),
                                      .message = saying(question),
                                      .is_granted = is_answer});
  }

  void end_admission() override { follower_->end_admission(); }

 private:
  test::GuardedCluster& cluster_;
  std::unique_ptr<Follower> follower_;
};

}  // namespace

std::unique_ptr<Port> relay_port(test::GuardedCluster& cluster) {
  return std::make_unique<RelayPort>(cluster);
}

}  // namespace taut::strangers
