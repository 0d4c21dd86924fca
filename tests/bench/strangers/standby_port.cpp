// The rows of a coordinator on standby: it names the leader to those whose keys are admitted,
// and does nothing else for any.
#include <string>
#include <utility>

#include "tests/bench/strangers/port_rows.hpp"

namespace taut::strangers {
namespace {

namespace request = test::request;

/// Another one leads.
class Elsewhere final : public Leadership {
 public:
  [[nodiscard]] std::optional<std::int64_t> term() const override { return std::nullopt; }
  [[nodiscard]] std::string leader() const override { return "127.0.0.1:1"; }
  void resign() override {}
};

class StandbyPort final : public Port {
 public:
  explicit StandbyPort(test::GuardedCluster& cluster)
      : cluster_(cluster), context_(cluster.listening()) {
    CoordinatorThread::Config config;
    config.address = "127.0.0.1:0";
    config.leadership = std::make_shared<Elsewhere>();
    coordinator_ =
        CoordinatorThread::start(context_.make_endpoint(), make_memory_store(), config).value();
  }

  std::vector<Stranger> strangers() override {
    const Stranger friendly{.port = "standby",
                            .what = "who leads",
                            .address = coordinator_->address(),
                            .message = saying(request::status()),
                            .is_granted = is_answer};
    std::vector<Stranger> rows = usual_strangers(cluster_, friendly);
    const auto add = [&](const char* who, const char* what, KeyRole role, const char* name,
                         const pb::ControlMessage& message) {
      Stranger& row = rows.emplace_back(friendly);
      row.who = who;
      row.what = what;
      row.key = cluster_.admit(name, role);
      row.message = saying(message);
      // It answers by naming the leader, and accepts none.
      row.is_granted = is_granted;
      row.connects = true;
    };
    add("wrong role: view", "trace", KeyRole::kView, "bob", request::set_trace());
    add("wrong role: submit", "join as worker1", KeyRole::kSubmit, "worker1",
        request::hello(pb::ROLE_WORKER, "worker1"));
    add("another's: worker1", "join as worker0", KeyRole::kWorker, "worker1",
        request::hello(pb::ROLE_WORKER, "worker0"));
    return rows;
  }

  void end_admission() override { context_.end_admission(); }

 private:
  test::GuardedCluster& cluster_;
  ZmqContext context_;
  std::unique_ptr<CoordinatorThread> coordinator_;
};

}  // namespace

std::unique_ptr<Port> standby_port(test::GuardedCluster& cluster) {
  return std::make_unique<StandbyPort>(cluster);
}

}  // namespace taut::strangers
