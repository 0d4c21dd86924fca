#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/net/shared_arena.hpp"
#include "common/net/shared_link.hpp"
#include "tests/unit/collective/toy_cluster.hpp"
#include "tests/unit/collective/toy_group.hpp"

namespace taut::collective {
namespace {

using test::kClocks;
using test::ToyCluster;
using test::ToyMeetings;
using test::ToyWorker;

/// All that live ended without an error, and had the same values after each clock that they share.
void check_alike(const std::vector<std::unique_ptr<ToyWorker>>& workers) {
  for (const auto& worker : workers) {
    CAPTURE(worker->number());
    CHECK(worker->error == "");
    CHECK(worker->clock() == Clock(kClocks));
    for (const auto& [clock, values] : worker->values) {
      const auto& first = workers.front()->values;
      const auto found = first.find(clock);
      if (found == first.end()) continue;
      CAPTURE(clock.value());
      REQUIRE(found->second == values);
    }
  }
}

/// Gradients that are 3 everywhere, and nothing else that a rank exchanges.
struct OnlyGradients : ReplicaValues {
  void read_gradient(std::size_t, std::span<float> into) override { std::ranges::fill(into, 3.0F); }
  void write_no_gradient(std::size_t) override {}
  void read_values(std::size_t, std::span<float>) override {}
  void write_mixed(std::size_t, std::span<const float>, std::span<const float>) override {}
  std::vector<std::size_t> array_sizes() const override { return {}; }
  void read_array(std::size_t, std::span<float>) override {}
  void write_array(std::size_t, std::span<const float>) override {}
  Result<void> begin() override { return ok(); }
};

struct Threes final : OnlyGradients {
  std::vector<std::size_t> gradient_sizes() const override { return {1000}; }
  void write_gradient(std::size_t, std::span<const float> mean) override { first = mean[0]; }
  std::atomic<float> first = 0;
};

/// Two ranks, and the coordinator's part.
struct TwoRanks {
  TwoRanks() {
    for (std::uint32_t i = 0; i < 2; ++i) {
      ranks[i] = listen_as_rank("127.0.0.1:0", false, boards[i]).value();
      boards[i].set_place(ranks[i].place);
      pb::RankGroup::Rank& rank = *job.mutable_group()->add_ranks();
      rank.set_worker(i);
      *rank.mutable_place() = ranks[i].place;
    }
    announce();
  }
  void announce() {
    job.mutable_group()->set_number(++number);
    for (std::uint32_t i = 0; i < 2; ++i) {
      job.set_worker(i);
      boards[i].post(job);
    }
  }
  /// A group in which sums failed is given another number.
  void look() {
    const bool is_broken = std::ranges::any_of(boards, [this](const RankBoard& board) {
      pb::Progress progress;
      board.report(progress);
      return progress.rank_place().broken() == number;
    });
    if (is_broken) announce();
  }

  std::array<Threes, 2> values;
  std::array<RankBoard, 2> boards;
  std::array<RankEndpoint, 2> ranks;
  pb::WorkerJob job;
  std::atomic<std::uint64_t> number = 0;
};

/// How many more links an arena has memory for.
std::size_t room_for_links(SharedArena& arena) {
  constexpr std::size_t kLinkBytes = SharedLink::kMaxLoans * sizeof(std::uint32_t);
  std::vector<void*> taken;
  try {
    while (true) taken.push_back(arena.allocate(kLinkBytes));
  } catch (const std::bad_alloc&) {
    for (void* const memory : taken) arena.deallocate(memory, kLinkBytes);
  }
  return taken.size();
}

/// Passes fifty times as fast as the machine's.
class HurriedTime final : public TimeSource {
 public:
  [[nodiscard]] TimePoint now() const override {
    return TimePoint(kHurry * steady_now().since_origin());
  }
  void sleep(Duration duration) override { std::this_thread::sleep_for(duration / kHurry); }

 private:
  static constexpr int kHurry = 50;
};

}  // namespace

TEST_CASE("workers that sum among themselves hold the same values, with every algorithm",
          "[collective][replicas]") {
  const auto algorithm =
      GENERATE(from_range(std::begin(test::kAlgorithms), std::end(test::kAlgorithms)));
  const bool with_keys = GENERATE(false, true);
  CAPTURE(to_string(algorithm), with_keys);
  ToyCluster cluster(4, algorithm, with_keys, with_keys);
  const auto& workers = cluster.finish();
  check_alike(workers);
  CHECK(workers.front()->values.size() == kClocks);
}

TEST_CASE("workers that die and join leave the others' values alike", "[collective][replicas]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{13}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto algorithm = test::kAlgorithms[random() % std::size(test::kAlgorithms)];
  ToyCluster cluster(static_cast<std::uint32_t>(2 + random() % 3), algorithm, random() % 2 == 0,
                     random() % 2 == 0);
  while (cluster.clock() < Clock(kClocks - 12)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    if (random() % 2 == 0 && cluster.size() > 1) {
      cluster.kill(random() % 8, std::chrono::milliseconds(random() % 30));
    } else if (cluster.size() < 5) {
      cluster.join_one();
    }
    cluster.look();
  }
  check_alike(cluster.finish());
}

TEST_CASE("a clock that no rank computes, as all that would are gone, changes no gradient",
          "[collective][replicas]") {
  ToyCluster cluster(1, Algorithm::kRing, false, false);
  while (cluster.clock() < Clock(5)) std::this_thread::yield();
  cluster.join_one(25);
  REQUIRE(cluster.size() == 2);
  // It is given the parameters, and adds nothing yet.
  while (cluster.clock_of_newest() < Clock(5)) std::this_thread::yield();
  cluster.kill(0, Duration(0));
  const auto& workers = cluster.finish();
  check_alike(workers);
  for (const auto& [clock, values] : workers.front()->values) {
    REQUIRE(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }));
  }
}

TEST_CASE("a clock that no rank computes has no mean to write", "[collective][replicas]") {
  struct Values final : OnlyGradients {
    std::vector<std::size_t> gradient_sizes() const override { return {4, 5}; }
    void write_gradient(std::size_t table, std::span<const float>) override {
      means.push_back(table);
    }
    void write_no_gradient(std::size_t table) override { nothing.push_back(table); }
    std::vector<std::size_t> means;
    std::vector<std::size_t> nothing;
  };
  Values values;
  RankBoard board;
  const RankEndpoint rank = listen_as_rank("127.0.0.1:0", false, board).value();
  pb::WorkerJob job;
  job.mutable_group()->set_number(1);
  *job.mutable_group()->add_ranks()->mutable_place() = rank.place;
  board.post(job);
  ReplicaGroup::Options options;
  options.first = Clock(1);
  ReplicaGroup group(values, board, *rank.endpoint, options);
  Standing standing = group.join({.next = Clock(0)}).value();
  REQUIRE(standing.next == Clock(0));
  REQUIRE(group.exchange(standing).value());
  CHECK(values.nothing == std::vector<std::size_t>{0, 1});
  CHECK(values.means.empty());
  standing.next = Clock(1);
  REQUIRE(group.exchange(standing).value());
  CHECK(values.nothing.size() == 2);
  CHECK(values.means.size() == 2);
}

TEST_CASE("a sum continues while a rank that has added its part computes",
          "[collective][replicas]") {
  TwoRanks two;
  const auto train = [&](std::uint32_t i, const std::function<void()>& compute) {
    ReplicaGroup group(two.values[i], two.boards[i], *two.ranks[i].endpoint,
                       ReplicaGroup::Options());
    auto standing = group.join({.next = Clock(0)});
    if (!standing) return;
    group.publish(0);
    compute();
    if (group.exchange(standing.value())) group.leave();
  };
  std::thread fast([&] { train(0, [] {}); });
  train(1, [&] {
    for (int i = 0; i < 500 && two.values[0].first == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(two.values[0].first == 3);
  });
  fast.join();
  CHECK(two.values[1].first == 3);
}

TEST_CASE("a rank whose clock takes longer than all attempts without it is waited for",
          "[collective][replicas]") {
  // Of attempts that last a twentieth of the limit each there would be more than 30.
  constexpr std::uint64_t kMaxGroups = 12;
  constexpr std::size_t kMaxTaken = 2;  // a link of an attempt that is under way, and a margin
  const std::array<std::shared_ptr<SharedArena>, 2> arenas = {
      SharedArena::create(Bytes(16UL << 20U)).value(),
      SharedArena::create(Bytes(16UL << 20U)).value()};
  std::optional<std::size_t> room;
  std::size_t room_at_end = 0;
  HurriedTime time;
  TwoRanks two;
  std::array<std::string, 2> errors;
  std::array<std::atomic<bool>, 2> has_failed{};
  std::array<std::atomic<bool>, 2> has_ended{};
  const auto train = [&](std::uint32_t i, const std::function<void()>& compute) {
    ReplicaGroup::Options options;
    options.time = &time;
    options.shared_memory = arenas[i];
    // One that is alone would wait for the other without a limit.
    options.stops = [&has_failed, i] { return has_failed[1 - i].load(); };
    ReplicaGroup group(two.values[i], two.boards[i], *two.ranks[i].endpoint, options);
    auto standing = group.join({.next = Clock(0)});
    if (standing) {
      compute();
      const auto done = group.exchange(standing.value());
      if (done) group.leave();
      if (!done) errors[i] = done.error().message;
    } else {
      errors[i] = standing.error().message;
    }
    has_failed[i] = !errors[i].empty();
    has_ended[i] = true;
  };
  std::thread fast([&] { train(0, [] {}); });
  std::thread slow([&] {
    train(1, [&] {
      const TimePoint end = time.now() + 3 * ReplicaGroup::Options().limit;
      while (time.now() < end && !has_ended[0]) {
        // From the second attempt on.
        if (two.number >= 3 && !room) room = room_for_links(*arenas[0]);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      room_at_end = room_for_links(*arenas[0]);
    });
  });
  while (!has_ended[0] || !has_ended[1]) {
    two.look();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fast.join();
  slow.join();
  CHECK(errors == std::array<std::string, 2>());
  CHECK(two.number <= kMaxGroups);
  // Each attempt returns what it has taken.
  REQUIRE(room.has_value());
  CHECK(room_at_end + kMaxTaken >= *room);
  CHECK(two.values[0].first == 3);
  CHECK(two.values[1].first == 3);
}

TEST_CASE("a rank that takes a state knows how often the rule was applied to it",
          "[collective][replicas]") {
  const bool has_met = GENERATE(true, false);
  TwoRanks two;
  std::array<Standing, 2> joined;
  const auto join = [&](std::uint32_t i, const Standing& own) {
    ReplicaGroup::Options options;
    options.first = own.next;
    ReplicaGroup group(two.values[i], two.boards[i], *two.ranks[i].endpoint, options);
    if (const auto standing = group.join(own)) joined[i] = standing.value();
    group.leave();
  };
  std::thread trained([&] {
    join(0, {.next = Clock(10), .has_met = has_met, .is_fresh = false, .state_from = Clock(4)});
  });
  join(1, {.next = Clock(12), .state_from = Clock(12)});
  trained.join();
  for (const Standing& one : joined) {
    CHECK(one.next == Clock(10));
    CHECK(one.has_met == has_met);
    CHECK_FALSE(one.is_fresh);
    CHECK(one.state_from == Clock(4));
  }
}

TEST_CASE("a rank that cannot be reached ends the exchange, and is named",
          "[collective][replicas]") {
  ToyMeetings meetings;
  ToyWorker worker(0, Clock(0), false, false, meetings);
  pb::WorkerJob job;
  job.mutable_group()->set_number(1);
  pb::RankGroup::Rank& own = *job.mutable_group()->add_ranks();
  own.set_name("worker0");
  *own.mutable_place() = worker.place();
  pb::RankGroup::Rank& other = *job.mutable_group()->add_ranks();
  other.set_worker(1);
  other.set_name("worker1");
  other.mutable_place()->set_address("127.0.0.1:1");
  worker.board.set_place(worker.place());
  worker.board.post(job);
  worker.start(Algorithm::kRing, std::nullopt, false, std::chrono::milliseconds(1000));
  // As the coordinator does for ranks that have not changed.
  while (!worker.has_ended()) {
    pb::Progress progress;
    worker.board.report(progress);
    if (progress.rank_place().broken() == job.group().number()) {
      job.mutable_group()->set_number(job.group().number() + 1);
      worker.board.post(job);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  worker.join();
  CHECK(worker.error ==
        "rank 1 (worker1 at 127.0.0.1:1) cannot be reached: each worker must reach the others at "
        "these addresses");
}

}  // namespace taut::collective
