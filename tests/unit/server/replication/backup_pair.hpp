#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::test {

inline constexpr PeerId kBackup(77);   // as the primary sees it
inline constexpr PeerId kPrimary(78);  // as the backup sees it

inline constexpr WorkerId kAnn(0);
inline constexpr WorkerId kBob(1);

/// Makes a host a backup of the shard, by a number above that of the choice before.
inline void choose(pb::ShardInfo& shard, std::uint32_t host, std::uint64_t choice) {
  shard.set_copy(choice);
  pb::ShardBackup& backup = *shard.add_backups();
  backup.set_host(host);
  backup.set_address("backup:" + std::to_string(host));
  backup.set_choice(choice);
}

/// Of one message with one item.
inline DataItem item_of(const std::vector<server::Outgoing>& messages) {
  REQUIRE(messages.size() == 1);
  return std::get<DataItems>(messages[0].message.body).items.at(0);
}

/// What the workers of a job say to the hosts of its one shard, which has one slice of four values.
class ShardWorkers {
 public:
  ShardWorkers(int members, Slack slack) : job(members, slack) {
    job.state.set_replication_interval(1);
    shard().set_host(0);
    shard().set_term(1);
  }

  pb::ShardInfo& shard() { return *job.state.mutable_shards(0); }
  pb::DataHelloReply greet(server::Shard& host, WorkerId worker, std::uint64_t term) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job.hash());
    hello.set_shard(0);
    hello.set_term(term);
    const auto answers = say(host, worker, hello);
    return std::get<pb::DataHelloReply>(answers.at(0).message.body);
  }
  std::vector<server::Outgoing> open_tables(server::Shard& host, WorkerId worker,
                                            const std::vector<std::int64_t>& sent) {
    pb::OpenTables requested;
    *requested.add_tables() = to_wire(make_table(0, {4}));
    for (const std::int64_t clock : sent) requested.add_sent(clock);
    return say(host, worker, requested);
  }
  std::vector<server::Outgoing> push(server::Shard& host, WorkerId worker, std::int64_t clock) {
    DataItem item;
    item.kind = pb::DataItem::PUSH;
    item.count = 4;
    item.clock = Clock(clock);
    item.payload = frame_of(gradient_of(worker.value(), clock, 4));
    return say(host, worker, DataItems{{item}});
  }
  std::vector<server::Outgoing> read(server::Shard& host, WorkerId worker, std::int64_t clock) {
    DataItem item;
    item.kind = pb::DataItem::READ;
    item.clock = Clock(clock);
    return say(host, worker, DataItems{{item}});
  }
  template <class Body>
  std::vector<server::Outgoing> say(server::Shard& host, WorkerId worker, Body body) {
    return host.handle(PeerId(1 + worker.value()),
                       DataMessage{JobId(7), worker, job.incarnation(worker), std::move(body)},
                       TimePoint());
  }
  JobMaker job;
};

/// Two hosts: the first serves shard 0, the second keeps its images.
class BackupPair : public ShardWorkers {
 public:
  explicit BackupPair(int members, Slack slack = Slack(0)) : ShardWorkers(members, slack) {
    choose(shard(), 1, 1);
    first.set_dial({[](const std::string&) { return kBackup; }, [](PeerId) {}});
    second.set_dial({[](const std::string&) { return kPrimary; }, [](PeerId) {}});
    publish();
  }

  void publish() {
    const auto view = job.view();
    send(first.set_job(view));
    send(second.set_job(view));
  }
  void open(server::Shard& host, WorkerId worker, const std::vector<std::int64_t>& sent = {}) {
    send(open_tables(host, worker, sent));
  }
  void take_over() {
    shard().set_host(1);
    shard().set_term(2);
    shard().clear_backups();
    send(second.set_job(job.view()));
  }

  /// Images on their way and their acknowledgements; the rest is kept as what workers were told.
  void send(std::vector<server::Outgoing> messages) {
    for (server::Outgoing& out : messages) {
      if (std::holds_alternative<DataImages>(out.message.body)) {
        images.push_back(std::get<DataImages>(out.message.body));
        for (server::Outgoing& reply : second.handle(kPrimary, out.message, TimePoint())) {
          send(first.handle(kBackup, std::move(reply.message), TimePoint()));
        }
      } else {
        told.push_back(std::move(out));
      }
    }
  }
  /// As send(), but the backup receives nothing.
  void lose(const std::vector<server::Outgoing>& messages) {
    for (const server::Outgoing& out : messages) {
      if (std::holds_alternative<DataImages>(out.message.body)) {
        images.push_back(std::get<DataImages>(out.message.body));
      }
    }
  }
  void replicate() { send(first.take_images(TimePoint())); }

  BufferPool pool;
  server::Shard first{ShardId(0), pool};
  server::Shard second{ShardId(1), pool};
  std::vector<DataImages> images;
  std::vector<server::Outgoing> told;
};

}  // namespace taut::test
