#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/server/replication/backup_pair.hpp"

namespace taut::server {
namespace {

using test::item_of;
using test::kAnn;
using test::kBob;

constexpr Duration kSecond{1'000'000};

/// Three hosts of one shard: the first serves it, the others keep its images. What goes from host a
/// to host b comes from peer 100 + a.
class Trio : public test::ShardWorkers {
 public:
  explicit Trio(int members, bool logs = false, std::uint32_t backup_workers = 0)
      : ShardWorkers(members, Slack(0)) {
    job.state.set_logs_updates(logs);
    pb::Job& definition = *job.state.mutable_definition();
    definition.set_workers(static_cast<std::uint32_t>(members));
    definition.mutable_consistency()->set_mode(pb::Consistency::BSP);
    definition.mutable_consistency()->set_backup_workers(backup_workers);
    job.state.set_backup_limit_s(10);
    test::choose(shard(), 1, 1);
    test::choose(shard(), 2, 2);
    for (Shard& host : hosts) {
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
  std::vector<Outgoing> push(std::size_t host, WorkerId worker, std::int64_t clock) {
    return ShardWorkers::push(hosts.at(host), worker, clock);
  }
  std::vector<Outgoing> read(std::size_t host, WorkerId worker, std::int64_t clock) {
    return ShardWorkers::read(hosts.at(host), worker, clock);
  }
  std::vector<float> values(std::size_t host) {
    DataItem item;
    item.kind = pb::DataItem::SNAPSHOT;
    const DataItem answer = item_of(say(hosts.at(host), kAnn, DataItems{{item}}));
    REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
    return test::floats_of(answer.payload);
  }
  /// What one host sends: the others take it unless they have ended or are cut off.
  void send(std::size_t from, std::vector<Outgoing> messages) {
    for (Outgoing& out : messages) {
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
    std::vector<Outgoing> messages = hosts.at(host).take_images(TimePoint());
    for (Outgoing& out : messages) {
      if (auto* batch = std::get_if<DataImages>(&out.message.body)) batch->images.clear();
    }
    send(host, std::move(messages));
  }
  [[nodiscard]] bool is_whole(std::size_t host) const {
    const auto copies = hosts.at(host).report(JobId(7)).copies;
    return copies.size() == 1 && copies[0].is_complete;
  }

  BufferPool pool;
  std::array<Shard, 3> hosts{Shard(ShardId(0), pool), Shard(ShardId(1), pool),
                             Shard(ShardId(2), pool)};
  std::set<std::size_t> cut;                    // hosts that receive nothing
  std::set<std::size_t> ended;                  // and those that are gone
  std::vector<Outgoing> told;                   // to workers
  std::map<std::size_t, std::size_t> images{};  // that each host was sent
};

}  // namespace

TEST_CASE("an update is stable once both backups have its image", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  CHECK(trio.is_whole(1));
  CHECK(trio.is_whole(2));
  (void)trio.push(0, kAnn, 0);
  trio.cut = {2};
  trio.replicate(0);
  CHECK(item_of(trio.push(0, kAnn, 1)).stable == Clock(0));
  trio.cut.clear();
  // The same image once more, for the one that lacks it.
  trio.replicate(0, kSecond);
  trio.replicate(0, kSecond);
  CHECK(item_of(trio.push(0, kAnn, 2)).stable == Clock(2));
}

TEST_CASE("of two backups only the one that does not answer is given up", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {1};
  for (int second = 1; second < 14; ++second) trio.replicate(0, second * kSecond);
  const auto problems = trio.hosts[0].report(JobId(7)).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].choice == 1);
}

TEST_CASE("each of two backups lags by what it lacks itself", "[replication]") {
  Trio trio(1);
  const auto lags = [&](std::size_t host, int second) {
    std::map<std::uint64_t, std::pair<Duration, std::int64_t>> found;  // by choice
    for (const BackupLag& lag : trio.hosts.at(host).backup_lags(TimePoint(second * kSecond))) {
      found[lag.choice] = {lag.time, lag.clocks};
    }
    return found;
  };
  using Lags = std::map<std::uint64_t, std::pair<Duration, std::int64_t>>;
  constexpr std::pair<Duration, std::int64_t> kNone{Duration::zero(), 0};
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {2};
  trio.replicate(0, 1 * kSecond);
  CHECK(lags(0, 4) == Lags{{1, kNone}, {2, {3 * kSecond, 1}}});
  // Another one takes its place: the first keeps what it has.
  trio.cut.clear();
  trio.shard().mutable_backups()->RemoveLast();
  trio.shard().mutable_backups(0)->set_is_whole(true);
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  trio.cut = {2};
  trio.replicate(0, 5 * kSecond);
  CHECK(lags(0, 7) == Lags{{1, kNone}, {3, {2 * kSecond, 1}}});
  trio.cut.clear();
  trio.replicate(0, 8 * kSecond);
  CHECK(lags(0, 9) == Lags{{1, kNone}, {3, kNone}});
  // What the other one has is not known to the one that takes over.
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  trio.ended = {0};
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  trio.replicate(1, 10 * kSecond);
  CHECK(lags(1, 13) == Lags{{3, {3 * kSecond, 0}}});
  (void)trio.push(1, kAnn, 1);
  trio.replicate(1, 14 * kSecond);
  CHECK(lags(1, 15) == Lags{{3, kNone}});
}

TEST_CASE("a backup keeps its images when the other one takes over, until new ones arrive",
          "[replication]") {
  Trio trio(1);
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 1);
  const auto seen = trio.values(0);
  trio.ended = {0};
  trio.take_over(1);
  // It is lost as well, before it has sent an image.
  CHECK(trio.is_whole(2));
  SECTION("nothing newer was said to be safe in between") {
    trio.open(1, kAnn, 2, 2);
    CHECK(item_of(trio.push(1, kAnn, 1)).stable == Clock(0));
    CHECK(trio.values(1) == seen);
  }
  SECTION("it has sent one") {
    trio.open(1, kAnn, 2, 2);
    (void)trio.push(1, kAnn, 1);
    trio.replicate(1);
    CHECK(trio.is_whole(2));
    CHECK(item_of(trio.push(1, kAnn, 1)).stable == Clock(2));
  }
  trio.ended = {0, 1};
  trio.take_over(2);
  CHECK(trio.hosts[2].report(JobId(7)).error.empty());
  trio.open(2, kAnn, 3, 2);
  (void)trio.push(2, kAnn, 1);
  CHECK(trio.values(2) == seen);
}

TEST_CASE("a backup that was chosen again begins anew", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  CHECK(trio.is_whole(2));
  trio.shard().mutable_backups()->RemoveLast();
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  CHECK_FALSE(trio.is_whole(2));
  CHECK(trio.is_whole(1));
  trio.replicate(0);
  CHECK(trio.is_whole(2));
}

TEST_CASE("a new backup gets an image at once, and the one that is whole the next in its turn",
          "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  auto& backups = *trio.shard().mutable_backups();
  backups.RemoveLast();
  backups.Mutable(0)->set_is_whole(true);
  test::choose(trio.shard(), 2, 3);
  trio.images.clear();
  trio.publish();
  (void)trio.hosts[0].take_changed();
  trio.replicate(0);
  CHECK(trio.images == std::map<std::size_t, std::size_t>{{2, 1}});
  CHECK(trio.is_whole(1));
  CHECK(trio.is_whole(2));
  // What both have is what was stable before.
  CHECK(item_of(trio.push(0, kAnn, 1)).stable == Clock(1));
  trio.replicate(0);
  CHECK(trio.images == std::map<std::size_t, std::size_t>{{1, 1}, {2, 2}});
  CHECK(item_of(trio.push(0, kAnn, 2)).stable == Clock(2));
}

TEST_CASE("backups that are all whole get no image because of a change", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  trio.images.clear();
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  SECTION("the other backup is lost") {
    trio.shard().mutable_backups()->RemoveLast();
    trio.shard().set_copy(3);
    trio.publish();
    trio.replicate(0);
    CHECK(trio.images.empty());
    CHECK(item_of(trio.push(0, kAnn, 1)).stable == Clock(1));
    trio.replicate(0);
    CHECK(item_of(trio.push(0, kAnn, 2)).stable == Clock(2));
  }
  SECTION("the other backup takes over") {
    trio.ended = {0};
    trio.take_over(1);
    trio.open(1, kAnn, 2, 1);
    trio.replicate(1);
    CHECK(trio.images.empty());
    (void)trio.push(1, kAnn, 1);
    trio.replicate(1);
    CHECK(trio.images == std::map<std::size_t, std::size_t>{{2, 1}});
  }
}

TEST_CASE("with backup workers a read waits for both backups, and for one that takes the place",
          "[replication]") {
  Trio trio(2, false, 1);
  trio.replicate(0);
  trio.cut = {2};
  (void)trio.push(0, kAnn, 0);
  trio.told.clear();
  CHECK(item_of(trio.read(0, kAnn, 1)).kind == pb::DataItem::PARKED);
  trio.replicate(0);
  CHECK(trio.told.empty());
  // The one that does not answer is no backup any more: the other one has it.
  trio.shard().mutable_backups()->DeleteSubrange(1, 1);
  trio.shard().set_copy(3);
  trio.publish();
  trio.replicate(0);
  CHECK(item_of(trio.told).kind == pb::DataItem::VALUE);
}

TEST_CASE("a logged update counts once both backups have it", "[replication]") {
  Trio trio(1, true);
  trio.replicate(0);
  const auto before = trio.values(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {2};
  trio.replicate(0);
  CHECK(trio.values(0) == before);
  CHECK(trio.told.empty());
  trio.cut.clear();
  trio.replicate(0, kSecond);
  CHECK(trio.values(0) != before);
  CHECK(trio.told.size() == 1);
}

TEST_CASE("what one backup alone had logged of a lost member is not read before the other has it",
          "[replication]") {
  Trio trio(2, true);
  trio.replicate(0);
  trio.cut = {2};
  for (const WorkerId worker : {kAnn, kBob}) (void)trio.push(0, worker, 0);
  trio.replicate(0);
  CHECK(trio.told.empty());
  trio.ended = {0};
  pb::Member& bob = *trio.job.state.mutable_members(1);
  bob.set_fenced(true);
  bob.set_leave_clock(1);
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  CHECK(item_of(trio.read(1, kAnn, 1)).kind == pb::DataItem::PARKED);
  CHECK(trio.hosts[1].report(JobId(7)).settling);
  trio.cut.clear();
  trio.told.clear();
  trio.replicate(1, kSecond);
  REQUIRE(trio.told.size() == 1);
  CHECK(item_of(trio.told).kind == pb::DataItem::VALUE);
  CHECK_FALSE(trio.hosts[1].report(JobId(7)).settling);
}

TEST_CASE("a logged update counts at a take-over though its lost worker has left before it",
          "[replication]") {
  Trio trio(3, true);
  trio.replicate(0);
  const auto leave_at_0 = [&](int member) {
    pb::Member& gone = *trio.job.state.mutable_members(member);
    gone.set_fenced(true);
    gone.set_leave_clock(0);
    trio.publish();
  };
  // One left earlier: what Ann and Bob push at clock 0 is all of it, and is seen. The image that is
  // sent meanwhile is from before.
  leave_at_0(2);
  for (const WorkerId worker : {kAnn, kBob}) (void)trio.push(0, worker, 0);
  trio.replicate(0);
  REQUIRE(item_of(trio.read(0, kAnn, 1)).kind == pb::DataItem::VALUE);
  // Another slice, elsewhere, does not have Bob's.
  leave_at_0(1);
  const auto seen = trio.values(0);
  trio.ended = {0};
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  for (int second = 1; second < 4; ++second) trio.replicate(1, second * kSecond);
  REQUIRE_FALSE(trio.hosts[1].report(JobId(7)).settling);
  CHECK(trio.values(1) == seen);
}

TEST_CASE("a logged update of a worker that has left counts at a second take-over as at the first",
          "[replication]") {
  Trio trio(2, true);
  trio.replicate(0);
  (void)trio.push(0, kBob, 0);
  trio.replicate_logs(0);
  trio.ended = {0};
  // Another slice, elsewhere, does not have it. Here it waits for Ann's.
  pb::Member& bob = *trio.job.state.mutable_members(1);
  bob.set_fenced(true);
  bob.set_leave_clock(0);
  trio.take_over(1);
  trio.open(1, kAnn, 2, 0);
  for (int second = 1; second < 4; ++second) trio.replicate(1, second * kSecond);
  REQUIRE_FALSE(trio.hosts[1].report(JobId(7)).settling);
  (void)trio.push(1, kAnn, 0);
  trio.replicate_logs(1);
  const auto seen = trio.values(1);
  trio.ended = {0, 1};
  trio.take_over(2);
  trio.open(2, kAnn, 3, 1);
  REQUIRE_FALSE(trio.hosts[2].report(JobId(7)).settling);
  CHECK(trio.values(2) == seen);
}

TEST_CASE("an image drops nothing that a lost worker has pushed before its leave",
          "[replication]") {
  Trio trio(2, true);
  trio.replicate(0);
  // Bob does not read in between. Another slice, elsewhere, has only the first one.
  (void)trio.push(0, kBob, 0);
  trio.replicate_logs(0);
  (void)trio.push(0, kBob, 1);
  pb::Member& bob = *trio.job.state.mutable_members(1);
  bob.set_fenced(true);
  bob.set_leave_clock(1);
  trio.publish();
  trio.replicate(0, kSecond);
  (void)trio.push(0, kAnn, 0);
  trio.replicate_logs(0);
  SECTION("and its backups drop what it has pushed later once that is applied") {
    (void)trio.push(0, kAnn, 1);
    const auto before = trio.values(0);
    trio.replicate_logs(0);
    CHECK(trio.values(0) == before);  // it does not count before they have an image
    for (int second = 2; second < 4; ++second) trio.replicate(0, second * kSecond);
    CHECK(trio.values(0) != before);
  }
  const auto seen = trio.values(0);
  trio.ended = {0};
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  for (int second = 4; second < 7; ++second) trio.replicate(1, second * kSecond);
  REQUIRE_FALSE(trio.hosts[1].report(JobId(7)).settling);
  CHECK(trio.values(1) == seen);
}

TEST_CASE("a lost backup of two delays no logged update until the next one has its images",
          "[replication]") {
  Trio trio(1, true);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  REQUIRE(trio.told.size() == 1);
  // Host 2 is lost and comes back as a new backup.
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  trio.shard().mutable_backups()->RemoveLast();
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  (void)trio.push(0, kAnn, 1);
  // What was logged arrives, and the images do not.
  trio.replicate_logs(0);
  CHECK(trio.told.size() == 2);
  trio.lose_primary(1, 2);
}

TEST_CASE("a new backup that has updates and no image is whole after the next change of backups",
          "[replication]") {
  // Slices hold what others have pushed, so the first image waits until it is logged.
  Trio trio(2, true);
  trio.replicate(0);
  trio.shard().mutable_backups()->RemoveLast();
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  (void)trio.push(0, kAnn, 0);
  trio.replicate_logs(0);
  CHECK_FALSE(trio.is_whole(2));
  // Bob is lost before it has an image, and the other backup is replaced.
  pb::Member& bob = *trio.job.state.mutable_members(1);
  bob.set_fenced(true);
  bob.set_leave_clock(0);
  trio.shard().mutable_backups()->erase(trio.shard().mutable_backups()->begin());
  test::choose(trio.shard(), 1, 4);
  trio.publish();
  trio.replicate(0, kSecond);
  trio.replicate(0, 2 * kSecond);
  CHECK(trio.is_whole(1));
  CHECK(trio.is_whole(2));
  trio.lose_primary(2, 1);
}

TEST_CASE("a backup that has not answered is given up as early where another one has changed",
          "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {1, 2};
  for (int second = 1; second < 8; ++second) trio.replicate(0, second * kSecond);
  CHECK(trio.hosts[0].report(JobId(7)).problems.empty());
  trio.shard().mutable_backups()->RemoveLast();
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  for (int second = 8; second < 14; ++second) trio.replicate(0, second * kSecond);
  const auto problems = trio.hosts[0].report(JobId(7)).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].choice == 1);
}

TEST_CASE("a backup that owes nothing since the others changed is not given up", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {1};
  trio.replicate(0, kSecond);
  trio.cut = {};
  // The image on its way is of no use any more, and the next one is far.
  trio.job.state.set_replication_interval(100);
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  trio.shard().mutable_backups()->RemoveLast();
  trio.shard().set_copy(3);
  trio.publish();
  for (int second = 2; second < 40; ++second) trio.replicate(0, second * kSecond);
  for (int clock = 1; clock < 101; ++clock) (void)trio.push(0, kAnn, clock);
  // It is asked again, and has not answered yet.
  trio.cut = {1};
  trio.replicate(0, 40 * kSecond);
  trio.replicate(0, 42 * kSecond);
  CHECK(trio.hosts[0].report(JobId(7)).problems.empty());
}

TEST_CASE("where images take long, logged updates wait once there are too many", "[replication]") {
  Trio trio(1, true);
  trio.replicate(0);
  trio.told.clear();
  std::size_t clock = 0;
  while (clock < 50) {
    (void)trio.push(0, kAnn, static_cast<std::int64_t>(clock));
    trio.replicate_logs(0);
    if (trio.told.size() == clock) break;
    ++clock;
  }
  // An interval is one clock here.
  CHECK(clock == 5);
  trio.replicate(0, kSecond);
  trio.replicate(0, 2 * kSecond);
  CHECK(trio.told.size() == clock + 1);
}

TEST_CASE("an image on its way when backups change is due again at once", "[replication]") {
  Trio trio(1);
  trio.job.state.set_replication_interval(4);
  trio.publish();
  trio.replicate(0);
  for (int clock = 0; clock < 4; ++clock) (void)trio.push(0, kAnn, clock);
  trio.cut = {1, 2};
  trio.replicate(0);
  trio.cut = {};
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  trio.shard().mutable_backups()->RemoveLast();
  trio.shard().set_copy(3);
  trio.publish();
  (void)trio.push(0, kAnn, 4);
  trio.replicate(0);
  CHECK(item_of(trio.push(0, kAnn, 5)).stable == Clock(5));
}

TEST_CASE("what two primaries have logged continues a former image", "[replication]") {
  Trio trio(2, true);
  trio.replicate(0);
  // Of each clock one update, so that slices hold it; no image is made of it.
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  trio.ended = {0};
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  trio.open(1, kBob, 2, 1);
  (void)trio.push(1, kBob, 0);
  trio.replicate_logs(1);
  trio.ended = {0, 1};
  trio.take_over(2);
  CHECK(trio.hosts[2].report(JobId(7)).error.empty());
  trio.open(2, kAnn, 3, 1);
  trio.open(2, kBob, 3, 1);
  // Both are there without being sent again.
  CHECK_FALSE(trio.hosts[2].report(JobId(7)).settling);
  CHECK(trio.hosts[2].report(JobId(7)).min_version == Clock(1));
}

}  // namespace taut::server
