#include "lab/training/records/playback.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/config/lab/lab_cluster.hpp"
#include "tests/support/catch.hpp"

namespace taut::lab {
namespace {

TimePoint at(std::int64_t us) {
  return TimePoint(Duration(us));
}

std::unique_ptr<Topology> star(std::uint32_t workers) {
  auto cluster = parse_lab_cluster(
      "host { name: 's' workers: 0 servers: 1 link: 'card' }"
      "host { name: 'w' count: " +
          std::to_string(workers) +
          " link: 'card' }"
          "link { name: 'card' gbit_per_s: 8 latency_us: 10 }",
      "cluster");
  if (!cluster) FAIL(cluster.error().message);
  return Topology::make(cluster.value(), 1, workers, 1).value();
}

}  // namespace

TEST_CASE("a playback knows the hosts, their processes and the links", "[lab]") {
  Playback playback;
  playback.open(*star(3), 1, 2, 3);
  REQUIRE(playback.hosts().size() == 4);
  CHECK(playback.hosts()[0].servers == std::vector<std::uint32_t>{0});
  CHECK(playback.hosts()[2].name == "w1");
  CHECK(playback.hosts()[2].workers == std::vector<std::uint32_t>{1});
  CHECK(playback.links().size() == 12);
  const auto card = std::ranges::find(playback.links(), "w1 out", &Playback::Link::name);
  REQUIRE(card != playback.links().end());
  CHECK(card->gbit_per_s == Approx(8));
}

TEST_CASE("what a link carried is its load while it was on it", "[lab]") {
  const auto topology = star(2);
  Playback playback;
  playback.open(*topology, 1, 1, 2);
  topology->on_pass([&](const Topology::Passage& passage) { playback.pass(passage); });
  // 100 us on each of two cards, the second one 10 us later.
  (void)topology->arrival(topology->worker_node(0), topology->server_node(0), 100'000, at(200));
  CHECK(playback.bin() == Duration(100));
  std::map<std::string, std::vector<double>> busy;
  for (std::size_t link = 0; link < playback.links().size(); ++link) {
    const auto row = playback.busy_us(link);
    if (!row.empty()) busy[playback.links()[link].name] = {row.begin(), row.begin() + 5};
  }
  REQUIRE(busy.size() == 2);
  CHECK(busy["w0 out"] == std::vector<double>{0, 0, 100, 0, 0});
  CHECK(busy["s in"][2] == Approx(90));
  CHECK(busy["s in"][3] == Approx(10));
}

TEST_CASE("a worker that waits is at the clock of the slowest, and one that left at none",
          "[lab]") {
  Playback playback;
  playback.open(*star(3), 1, 1, 3);
  using Clocks = std::vector<std::int32_t>;
  // With slack 1: the first has finished clock 1 and may not compute the next one before the
  // second has finished clock 0; the third has not begun.
  for (const std::uint32_t worker : {0U, 1U}) {
    playback.reach(worker, Clock(0), at(10));
    playback.compute(worker, Clock(0), at(20));
  }
  playback.reach(0, Clock(1), at(110));
  playback.compute(0, Clock(1), at(120));
  playback.reach(0, Clock(2), at(150));
  // The second has finished its first one, and what it reads is on its way.
  playback.reach(1, Clock(1), at(210));
  playback.compute(0, Clock(2), at(215));
  playback.leave(1, at(310));
  auto clocks = playback.clocks(4);
  CHECK(clocks[0] == Clocks{0, 1, 2, 2});
  CHECK(clocks[1] == Clocks{0, 0, 1, TimeBins::kNone});
  CHECK(clocks[2] == Clocks(4, TimeBins::kNone));
}

TEST_CASE("the bound is the largest that a shard allows, and one that no policy moves has no row",
          "[lab]") {
  Playback playback;
  playback.open(*star(2), 1, 2, 2);
  playback.reach(0, Clock(0), at(10));
  CHECK(playback.bounds(1).empty());
  using Bounds = std::vector<std::int32_t>;
  playback.bound(0, 0, Slack(3), at(110));
  playback.bound(0, 1, Slack(5), at(120));
  playback.bound(0, 1, Slack(2), at(210));
  playback.bound(0, 0, Slack(1), at(310));
  playback.bound(0, 0, Slack::unbounded(), at(410));
  playback.lose(0, at(510));
  playback.bound(0, 0, Slack(4), at(610));
  const std::int32_t none = std::numeric_limits<std::int32_t>::max();
  CHECK(playback.bounds(7) == Bounds{TimeBins::kNone, 5, 3, 2, none, none, 4});
}

TEST_CASE("a loss that is not finite is in no mean, and a test that is repeated is one", "[lab]") {
  Playback playback;
  playback.open(*star(1), 1, 1, 1);
  const Playback::Totals first{.clocks = 1, .reads = 4, .staleness = 2};
  const Playback::Totals second{.clocks = 2, .reads = 8, .staleness = 8};
  playback.finish({}, first, 2.5, at(10));
  playback.finish(first, second, std::nan(""), at(20));
  CHECK(playback.finished()[0] == 2);
  CHECK(playback.losses()[0] == 1);
  CHECK(playback.loss_sums()[0] == Approx(2.5));
  CHECK(playback.reads()[0] == 8);
  CHECK(playback.staleness_sums()[0] == Approx(8));
  for (const int clock : {0, 10, 10, 20}) {
    playback.test({.clock = Clock(clock), .at_s = 0.1 * clock, .accuracy = {}, .loss = 1});
  }
  CHECK(playback.tests().size() == 3);
}

TEST_CASE("thousands of hosts have fewer bins, and none has fewer than the least", "[lab]") {
  Playback few;
  few.open(*star(4), 1, 1, 4);
  few.reach(0, Clock(1), at(1'000'000));
  CHECK(few.bins(at(1'000'000)) > 256);
  CHECK(few.bins(at(1'000'000)) <= Playback::kMaxBins);
  // Hosts without processes do not count.
  Playback spare;
  spare.open(*star(5000), 1, 1, 4);
  spare.reach(0, Clock(1), at(1'000'000));
  CHECK(spare.bins(at(1'000'000)) == few.bins(at(1'000'000)));
  Playback many;
  many.open(*star(5000), 1, 1, 5000);
  many.reach(4999, Clock(1), at(1'000'000));
  CHECK(many.bins(at(1'000'000)) > Playback::kMinBins / 2);
  CHECK(many.bins(at(1'000'000)) <= Playback::kMinBins);
}

}  // namespace taut::lab
