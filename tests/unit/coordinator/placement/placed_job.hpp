#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/coordinator/job_life.hpp"
#include "server/coordinator/placement/shard_placement.hpp"
#include "tests/support/catch.hpp"

namespace taut::test {

/// A running job on servers named s0, s1, ..., and what they report of the images that they keep.
class Placement {
 public:
  /// machines  of the servers; fewer: they are not known
  Placement(int servers, int hosts_each, std::uint32_t copies,
            const std::vector<std::string>& machines = {}) {
    for (int i = 0; i < servers; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const std::string machine = place < machines.size() ? machines[place] : "";
      const Participant& server = join("s" + std::to_string(i), hosts_each, machine);
      pb::StoredServer& chosen = *job.change().add_servers();
      chosen.set_name(server.name);
      chosen.set_incarnation(server.incarnation.value());
      chosen.set_first_shard(static_cast<std::uint32_t>(i * hosts_each));
      for (const std::string& address : server.shard_addresses) chosen.add_shard_addresses(address);
      job.servers.emplace_back();
    }
    place_shards(job, registry, {4, copies});
  }

  Participant& join(const std::string& name, int hosts, const std::string& machine = "") {
    pb::Hello hello;
    hello.set_role(pb::ROLE_SERVER);
    hello.set_name(name);
    hello.set_session(++session_);
    hello.set_host(machine);
    for (int i = 0; i < hosts; ++i) hello.add_shard_addresses(name + ":" + std::to_string(i + 1));
    Participant* joined = registry.greet(PeerId(session_), hello, TimePoint()).participant;
    REQUIRE(joined != nullptr);
    servers_[name] = joined;
    return *joined;
  }
  void add_members(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      pb::Hello hello;
      hello.set_role(pb::ROLE_WORKER);
      hello.set_name("w" + std::to_string(i));
      hello.set_session(++session_);
      const Participant* joined = registry.greet(PeerId(session_), hello, TimePoint()).participant;
      REQUIRE(joined != nullptr);
      pb::Member member;
      member.set_worker(i);
      member.set_name(joined->name);
      member.set_incarnation(joined->incarnation.value());
      member.set_leave_clock(Clock::never().value());
      job.add_member(member, session_, "");
      job.workers.back().notified = true;
    }
  }
  /// A worker reports that a shard owes it an answer, or that none does.
  void report_silent(int member, std::optional<std::uint32_t> shard, std::uint64_t term = 1) {
    pb::Progress progress = job.stored().members(member).progress();
    progress.clear_silent();
    if (shard) {
      progress.mutable_silent()->set_shard(*shard);
      progress.mutable_silent()->set_term(term);
    }
    job.take_progress(member, progress, TimePoint());
  }
  void hear(const std::string& name, Duration after) {
    registry.hear(*servers_.at(name)->peer, TimePoint() + after);
  }
  void lose(const std::string& name) { registry.lose(*servers_.at(name), "was killed"); }
  /// Each backup has an image of every slice.
  void report_whole() {
    const pb::StoredJob& stored = job.stored();
    for (auto& server : job.servers) server.reply.clear_copies();
    for (int number = 0; number < stored.shards_size(); ++number) {
      for (const pb::StoredBackup& one : stored.shards(number).backups()) {
        auto& reply = job.servers.at(static_cast<std::size_t>(job.server_of(one.host()))).reply;
        reply.set_revision(stored.revision());
        pb::ShardCopy& copy = *reply.add_copies();
        copy.set_shard(static_cast<std::uint32_t>(number));
        copy.set_choice(one.choice());
        copy.set_complete(true);
      }
    }
    acknowledge();
  }
  /// Every server has the newest revision.
  void acknowledge() {
    for (auto& server : job.servers) server.delivery.acknowledge(job.stored().revision());
  }
  [[nodiscard]] std::size_t backups() const {
    std::size_t count = 0;
    for (int i = 0; i < job.stored().shards_size(); ++i) count += backups_of(i).size();
    return count;
  }
  std::string replace() { return replace_servers(job, registry, TimePoint(), tasks, notes); }
  /// Whether the next step of the coordinator looks at the shards: what was given up long ago is
  /// forgotten only then.
  bool looks() {
    constexpr std::uint32_t kNoShard = 1000;
    job.given_up.push_back({kNoShard, 0, TimePoint(), "given up long ago"});
    note_losses(job, registry, TimePoint(), tasks, notes);
    REQUIRE_FALSE(job.stored().closing());
    return std::erase_if(job.given_up,
                         [](const JobRecord::GivenUp& one) { return one.shard == kNoShard; }) == 0;
  }
  /// All is as it should be, and the coordinator has seen that.
  void settle() {
    report_whole();
    job.placement_due = true;
    for (int step = 0; step < 20 && looks(); ++step) report_whole();
    REQUIRE_FALSE(looks());
  }
  [[nodiscard]] int server_of(int shard) const {
    return job.server_of(job.stored().shards(shard).host());
  }
  [[nodiscard]] std::map<int, std::uint64_t> backups_of(int shard) const {
    std::map<int, std::uint64_t> choices;
    for (const pb::StoredBackup& one : job.stored().shards(shard).backups()) {
      choices[job.server_of(one.host())] = one.choice();
    }
    return choices;
  }

  Registry registry{std::chrono::seconds(15), 1};
  JobRecord job{running(), TimePoint()};
  CheckpointTasks tasks;
  Notes notes;

 private:
  static pb::StoredJob running() {
    pb::StoredJob stored;
    stored.set_job(7);
    stored.set_state(pb::RUNNING);
    return stored;
  }

  std::uint64_t session_ = 0;
  std::map<std::string, Participant*> servers_;
};

}  // namespace taut::test
