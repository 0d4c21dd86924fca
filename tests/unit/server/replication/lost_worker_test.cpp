// What a lost worker has pushed past its leave, where updates are logged: backups drop it too.
#include <cstdint>
#include <variant>
#include <vector>

#include "tests/unit/server/replication/shard_trio.hpp"

namespace taut::server {
namespace {

using test::kAnn;
using test::kBob;
using test::kSecond;
using test::Trio;

/// Bob has pushed two clocks without a read in between, and is lost. Another slice, elsewhere, has
/// only the first one, so Bob leaves before the second, which is refused here and is in the
/// backups' logs. The first one waits for Ann's. The backups have an image that was made since.
struct BobLeft : Trio {
  BobLeft() : Trio(2, true) {
    replicate(0);
    (void)push(0, kBob, 0);
    replicate_logs(0);
    (void)push(0, kBob, 1);
    pb::Member& bob = *job.state.mutable_members(1);
    bob.set_fenced(true);
    bob.set_leave_clock(1);
    publish();
    replicate(0, kSecond);
    told.clear();
  }
  /// One backup takes over from the first host, which had counted Ann's updates before `sent`.
  void lose_first(std::int64_t sent) {
    const auto seen = values(0);
    ended = {0};
    take_over(1);
    open(1, kAnn, 2, sent);
    for (int second = 4; second < 7; ++second) replicate(1, second * kSecond);
    REQUIRE_FALSE(hosts[1].report(JobId(7)).settling);
    CHECK(values(1) == seen);
  }
  /// The clocks of updates that count, as workers were told.
  [[nodiscard]] std::vector<std::int64_t> counted() const {
    std::vector<std::int64_t> clocks;
    for (const Outgoing& out : told) {
      const auto* batch = std::get_if<DataItems>(&out.message.body);
      if (batch == nullptr) continue;
      for (const DataItem& item : batch->items) {
        if (item.kind == pb::DataItem::ACK) clocks.push_back(item.clock.value());
      }
    }
    return clocks;
  }
};

using Clocks = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("an image drops nothing that a lost worker has pushed before its leave",
          "[replication]") {
  BobLeft trio;
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
  trio.lose_first(1);
}

TEST_CASE("what completes a lost worker's last clock counts, what follows waits for an image",
          "[replication]") {
  BobLeft trio;
  (void)trio.push(0, kAnn, 0);
  (void)trio.push(0, kAnn, 1);
  trio.replicate_logs(0);
  // From the second one on, Bob no longer takes part: backups must know that first.
  CHECK(trio.counted() == Clocks{0});
  const auto before = trio.values(0);
  for (int second = 2; second < 4; ++second) trio.replicate(0, second * kSecond);
  CHECK(trio.counted() == Clocks{0, 1});
  CHECK(trio.values(0) != before);
  trio.lose_first(2);
}

TEST_CASE("updates that are acknowledged together count while a lost worker's waits for others",
          "[replication]") {
  Trio trio(3, true);
  trio.replicate(0);
  const WorkerId cid(2);
  (void)trio.push(0, kBob, 0);
  trio.replicate_logs(0);
  pb::Member& bob = *trio.job.state.mutable_members(1);
  bob.set_fenced(true);
  bob.set_leave_clock(1);
  trio.publish();
  trio.replicate(0, kSecond);
  trio.told.clear();
  // Cid's of clock 0 is missing, so none of these completes what Bob has pushed.
  (void)trio.push(0, kAnn, 0);
  (void)trio.push(0, kAnn, 1);
  trio.replicate_logs(0);
  CHECK(trio.hosts[0].queues().held_updates == 3);
  const auto before = trio.values(0);
  (void)trio.push(0, cid, 0);
  trio.replicate_logs(0);
  CHECK(trio.values(0) != before);
}

TEST_CASE("a lost worker's update that the log no longer has is dropped by its backups",
          "[replication]") {
  BobLeft trio;
  (void)trio.push(0, kAnn, 0);
  trio.replicate_logs(0);
  (void)trio.push(0, kAnn, 1);
  for (int second = 2; second < 4; ++second) trio.replicate(0, second * kSecond);
  REQUIRE(trio.counted() == Clocks{0, 1});
  trio.lose_first(2);
  // It would wait for others of its clock for ever, and what follows with it.
  const auto seen = trio.values(1);
  (void)trio.push(1, kAnn, 2);
  trio.replicate(1, 7 * kSecond);
  CHECK(trio.values(1) != seen);
}

}  // namespace taut::server
