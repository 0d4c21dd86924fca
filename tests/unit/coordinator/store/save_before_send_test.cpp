#include "server/coordinator/store/save_before_send.hpp"

#include "tests/support/catch.hpp"

namespace taut {
namespace {

/// Stores nothing while it is full.
class FullStore final : public CoordinatorStore {
 public:
  Result<CoordinatorRecords> load() override { return records; }
  Result<void> save(const CoordinatorChanges& changes) override {
    if (is_full) return make_error(ErrorCode::kIo, "no space left");
    for (const auto& [id, job] : changes.jobs) records.jobs[id] = job;
    return ok();
  }

  CoordinatorRecords records;
  bool is_full = true;
};

CoordinatorMessage message_to(std::uint64_t peer, pb::ControlMessage message) {
  return {PeerId(peer), std::move(message)};
}

CoordinatorOutput output_with_change(std::uint64_t job) {
  CoordinatorOutput output;
  output.changes.jobs[JobId(job)].set_job(job);
  output.tasks.emplace_back();
  return output;
}

}  // namespace

TEST_CASE("while the store is full only what says nothing new is sent", "[coordinator]") {
  FullStore store;
  SaveBeforeSend saves(store);
  CoordinatorOutput output = output_with_change(1);
  pb::ControlMessage heartbeat;
  heartbeat.mutable_heartbeat_reply()->set_known(true);
  // It follows from the change that the process may end: after a restart it would be waited for.
  heartbeat.mutable_heartbeat_reply()->set_is_drained(true);
  output.messages.push_back(message_to(1, heartbeat));
  pb::ControlMessage user;
  user.mutable_hello_reply()->set_accepted(true);
  output.messages.push_back(message_to(2, user));
  pb::ControlMessage life = user;
  life.mutable_hello_reply()->set_incarnation(3);
  output.messages.push_back(message_to(3, life));
  pb::ControlMessage submitted;
  submitted.mutable_submit_reply()->set_job(1);
  output.messages.push_back(message_to(4, submitted));

  pb::ControlMessage refused;
  refused.mutable_submit_reply()->set_error("no net");
  output.messages.push_back(message_to(5, refused));
  pb::ControlMessage status;
  status.mutable_status_reply()->add_servers()->set_is_drained(true);
  status.mutable_status_reply()->add_workers()->set_is_drained(true);
  output.messages.push_back(message_to(6, status));

  const auto released = saves.take(std::move(output));
  REQUIRE(released.failure);
  CHECK(released.failure->message == "no space left");
  CHECK(released.tasks.empty());
  REQUIRE(released.messages.size() == 4);
  CHECK(released.messages[0].to == PeerId(1));
  CHECK(released.messages[0].message.heartbeat_reply().known());
  CHECK_FALSE(released.messages[0].message.heartbeat_reply().is_drained());
  CHECK(released.messages[1].to == PeerId(2));
  CHECK(released.messages[2].to == PeerId(5));
  CHECK_FALSE(released.messages[3].message.status_reply().servers(0).is_drained());
  CHECK_FALSE(released.messages[3].message.status_reply().workers(0).is_drained());
}

TEST_CASE("what could not be saved is saved with what follows, and its tasks are done then",
          "[coordinator]") {
  FullStore store;
  SaveBeforeSend saves(store);
  CHECK(saves.take(output_with_change(1)).failure);
  store.is_full = false;
  const auto released = saves.take(output_with_change(2));
  CHECK_FALSE(released.failure);
  CHECK(released.tasks.size() == 2);
  CHECK(store.records.jobs.size() == 2);
  CHECK(saves.take({}).tasks.empty());
}

}  // namespace taut
