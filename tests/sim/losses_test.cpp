// The rules about processes that die, on histories and records written by hand.
#include <string>

#include "lab/losses/early_end.hpp"
#include "lab/losses/promises.hpp"
#include "lab/losses/take_overs.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::sim;

namespace {

constexpr std::uint64_t kTerm = 4;

/// A shard that host 0 serves in term 4 and host 1 in term 5, with one slice and one worker.
class Answers {
 public:
  Answers()
      : promises_(job_), history_([this](const History& history) {
          for (const Event& event : history.events()) {
            if (!broken_) broken_ = promises_.take(event, history);
          }
        }) {
    job_.tables = job_.slices = job_.workers = 1;
  }
  /// The shard's primary as a host learns it, and a request of the worker there.
  Answers& told(std::uint32_t host, std::uint32_t primary, std::uint64_t term) {
    pb::ServerJob view;
    pb::ShardInfo& shard = *view.add_shards();
    shard.set_host(primary);
    shard.set_term(term);
    view.add_members();
    history_.add_view(TimePoint(), ShardId(host), view);
    Event request;
    request.kind = Event::Kind::kRequest;
    request.shard = ShardId(host);
    request.peer = PeerId(1);
    history_.add(request);
    return *this;
  }
  /// It has the updates before `done`, of which those before `stable` outlive it.
  Answers& says(std::uint32_t host, std::int64_t done, std::int64_t stable) {
    Event reply;
    reply.kind = Event::Kind::kReply;
    reply.item = pb::DataItem::ACK;
    reply.shard = ShardId(host);
    reply.peer = PeerId(1);
    reply.done = Clock(done);
    reply.stable = Clock(stable);
    history_.add(reply);
    return *this;
  }
  std::string rule() {
    history_.finish();
    return broken_ ? broken_->rule : "";
  }

 private:
  ToyJob job_;
  Promises promises_;
  History history_;
  std::optional<Broken> broken_;
};

/// A job that was given up with these words; host 0 of "a" serves its shard 0, and host 1 of "b"
/// backs it up; either server may be alive.
/// limit  on its two workers, while a job of higher priority has others; 0: none
std::string early_end(const std::string& message, bool has_primary, bool has_backup,
                      std::uint32_t limit = 0) {
  pb::StoredJob job;
  job.set_slots(2);
  job.set_worker_limit(limit);
  job.set_message(message);
  for (const char* name : {"a", "b"}) {
    pb::StoredServer& server = *job.add_servers();
    server.set_name(name);
    server.add_shard_addresses(name);
    server.set_first_shard(name == std::string("a") ? 0 : 1);
  }
  job.add_shards()->add_backups()->set_host(1);
  Survivors survivors;
  survivors.is_here = [=](const pb::StoredServer& server) {
    return server.name() == "a" ? has_primary : has_backup;
  };
  survivors.serves = [=](const pb::StoredServer&, std::uint32_t, std::uint32_t) {
    return has_primary;
  };
  survivors.has_images = [=](const pb::StoredServer&, std::uint32_t, std::uint32_t, std::uint64_t) {
    return has_backup;
  };
  survivors.is_any_worker_here = [=] { return has_primary; };
  const auto broken = check_early_end(job, survivors);
  return broken ? broken->rule : "";
}

}  // namespace

TEST_CASE("what was said to outlive a primary must be at the next one", "[sim]") {
  const auto taken_over = [](std::int64_t done) {
    Answers answers;
    answers.told(0, 0, kTerm).says(0, 8, 6).told(1, 1, kTerm + 1).says(1, done, done);
    return answers.rule();
  };
  CHECK(taken_over(5) == "promise");
  CHECK(taken_over(6).empty());
}

TEST_CASE("no shard says that updates outlive it which it does not have", "[sim]") {
  CHECK(Answers().told(0, 0, kTerm).says(0, 8, 8).rule().empty());
  CHECK(Answers().told(0, 0, kTerm).says(0, 8, 9).rule() == "promise");
}

TEST_CASE("a shard has one primary in each term", "[sim]") {
  CHECK(Answers().told(0, 0, kTerm).told(1, 1, kTerm + 1).rule().empty());
  CHECK(Answers().told(0, 0, kTerm).told(1, 1, kTerm).rule() == "primary");
}

TEST_CASE("no host answers for a shard that it knows another one to serve", "[sim]") {
  CHECK(Answers().told(0, 1, kTerm).says(0, 8, 6).rule() == "primary");
}

TEST_CASE("no job is given up that could continue", "[sim]") {
  const std::string every_worker = "every worker was lost";
  CHECK(early_end(every_worker, true, true) == "given up");
  CHECK(early_end(every_worker, false, true).empty());
  // Found by seed 3065 of --faults drawn --daemon-limits.
  CHECK(early_end(every_worker, true, true, 1).empty());
  // Found by seed 12610 of it: a server cannot learn of a worker that is joining.
  CHECK(early_end(every_worker, true, false).empty());
  const std::string shard = "a part of the parameters is lost; shard 0";
  CHECK(early_end(shard, true, false) == "given up");
  CHECK(early_end(shard, false, true) == "given up");
  CHECK(early_end(shard, false, false).empty());
  CHECK(early_end("a part of the parameters is lost; shard 1", false, false) == "given up");
  CHECK(early_end("it is late", false, false) == "given up");
}

TEST_CASE("a take-over counts with what was under way when the server was lost", "[sim]") {
  pb::StoredJob job;
  for (int i = 0; i < 3; ++i) {
    job.add_servers();
    job.add_shards()->set_term(1);
  }
  TakeOvers take_overs;
  take_overs.look(job);
  CHECK(take_overs.counts().all == 0);
  // A planned move, at which a checkpoint is ordered.
  job.mutable_checkpoint();
  take_overs.look(job);
  job.mutable_shards(0)->set_term(2);
  take_overs.look(job);
  CHECK(take_overs.counts().all == 0);
  // A take-over withdraws what is being prepared, in the same step.
  job.mutable_preparing()->set_kind(pb::EpochChange::JOIN);
  take_overs.look(job);
  job.mutable_servers(1)->set_lost(true);
  job.mutable_shards(1)->set_term(2);
  job.clear_preparing();
  job.clear_checkpoint();
  take_overs.look(job);
  CHECK(take_overs.counts().all == 1);
  CHECK(take_overs.counts().joins == 1);
  CHECK(take_overs.counts().mode_changes == 0);
  CHECK(take_overs.counts().checkpoints == 1);
  job.mutable_preparing()->set_kind(pb::EpochChange::MODE);
  take_overs.look(job);
  job.mutable_servers(2)->set_lost(true);
  job.mutable_shards(2)->set_term(2);
  take_overs.look(job);
  CHECK(take_overs.counts().all == 2);
  CHECK(take_overs.counts().joins == 1);
  CHECK(take_overs.counts().mode_changes == 1);
  CHECK(take_overs.counts().checkpoints == 1);
}
