#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/server/replication/backup_pair.hpp"

namespace taut::test {

inline constexpr Duration kSecond{1'000'000};

/// Three hosts of one shard: the first serves it, the others keep its images. What goes from host a
/// to host b comes from peer 100 + a.
class Trio : public ShardWorkers {
 public:
  explicit Trio(int members, bool logs = false, std::uint32_t backup_workers = 0)
      : ShardWorkers(members, Slack(0)) {
    job.state.set_logs_updates(logs);
    pb::Job& definition = *job.state.mutable_definition();
    definition.set_workers(static_cast<std::uint32_t>(members));
    definition.mutable_consistency()->set_mode(pb::Consistency::BSP);
    definition.mutable_consistency()->set_backup_workers(backup_workers);
    job.state.set_backup_limit_s(10);
    choose(shard(), 1, 1);
    choose(shard(), 2, 2);
    for (server::Shard& host : hosts) {
      host.set_dial({[](const std::string& address) {
                       return PeerId(100 + static_cast<std::uint64_t>(address.back() - '0'));
                     },
                     [](PeerId) {}});
    }
    publish();
    for (int i = 0; i < members; ++i) open(0, WorkerId(static_cast<std::uint32_t>(i)), 1);
    told.clear();
  }

  void publish() {
    const auto view = job.view();
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      if (!ended.contains(host)) send(host, hosts[host].set_job(view));
    }
  }
  /// A backup serves the shard from now on; the other one stays what it is.
  void take_over(std::uint32_t host) {
    shard().set_host(host);
    shard().set_term(shard().term() + 1);
    auto& backups = *shard().mutable_backups();
    const auto is_it = [&](const pb::ShardBackup& one) { return one.host() == host; };
    backups.erase(std::remove_if(backups.begin(), backups.end(), is_it), backups.end());
    shard().set_copy(shard().copy() + 1);
    publish();
  }

  /// The first host ends: one backup takes over, sends the other one its images, and has the values
  /// that were there.
  /// sent  Ann's first clock that she has not sent
  void lose_primary(std::uint32_t successor, std::int64_t sent) {
    const auto seen = values(0);
    ended = {0};
    take_over(successor);
    open(successor, kAnn, 2, sent);
    replicate(successor);
    CHECK_FALSE(hosts.at(successor).report(JobId(7)).settling);
    CHECK(values(successor) == seen);
  }

  void open(std::size_t host, WorkerId worker, std::uint64_t term, std::int64_t sent = 0) {
    REQUIRE(greet(hosts.at(host), worker, term).accepted());
    send(host, open_tables(hosts.at(host), worker, {sent}));
  }
  std::vector<server::Outgoing> push(std::size_t host, WorkerId worker, std::int64_t clock) {
    return ShardWorkers::push(hosts.at(host), worker, clock);
  }
  std::vector<server::Outgoing> read(std::size_t host, WorkerId worker, std::int64_t clock) {
    return ShardWorkers::read(hosts.at(host), worker, clock);
  }
  std::vector<float> values(std::size_t host) {
    DataItem item;
    item.kind = pb::DataItem::SNAPSHOT;
    const DataItem answer = item_of(say(hosts.at(host), kAnn, DataItems{{item}}));
    REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
    return floats_of(answer.payload);
  }
  /// What one host sends: the others take it unless they have ended or are cut off.
  void send(std::size_t from, std::vector<server::Outgoing> messages) {
    for (server::Outgoing& out : messages) {
      if (out.to.value() < 100) {
        told.push_back(std::move(out));
        continue;
      }
      const std::size_t to = out.to.value() - 100;
      if (cut.contains(to) || ended.contains(to)) continue;
      if (const auto* batch = std::get_if<DataImages>(&out.message.body)) {
        if (!batch->images.empty()) images[to] += batch->images.size();
      }
      send(to, hosts.at(to).handle(PeerId(100 + from), std::move(out.message), TimePoint()));
    }
  }
  void replicate(std::size_t host, Duration at = Duration()) {
    send(host, hosts.at(host).take_images(TimePoint(at)));
  }
  /// Logged updates arrive, and images do not.
  void replicate_logs(std::size_t host) {
    std::vector<server::Outgoing> messages = hosts.at(host).take_images(TimePoint());
    for (server::Outgoing& out : messages) {
      if (auto* batch = std::get_if<DataImages>(&out.message.body)) batch->images.clear();
    }
    send(host, std::move(messages));
  }
  [[nodiscard]] bool is_whole(std::size_t host) const {
    const auto copies = hosts.at(host).report(JobId(7)).copies;
    return copies.size() == 1 && copies[0].is_complete;
  }

  BufferPool pool;
  std::array<server::Shard, 3> hosts{server::Shard(ShardId(0), pool),
                                     server::Shard(ShardId(1), pool),
                                     server::Shard(ShardId(2), pool)};
  std::set<std::size_t> cut;                    // hosts that receive nothing
  std::set<std::size_t> ended;                  // and those that are gone
  std::vector<server::Outgoing> told;           // to workers
  std::map<std::size_t, std::size_t> images{};  // that each host was sent
};

}  // namespace taut::test
