#include "worker/collective/replica_group.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/collective/toy_group.hpp"
#include "worker/collective/rank_endpoint.hpp"

namespace taut::collective {
namespace {

constexpr std::int64_t kClocks = 60;
constexpr std::int64_t kInterval = 7;  // clocks between two meetings
constexpr std::int64_t kLead = 3;      // clocks between a new worker's arrival and its first one
const std::vector<std::size_t> kTables = {3, 700, 40};

bool meets(Clock clock) {
  return (clock.value() + 1) % kInterval == 0 || clock.value() + 1 == kClocks;
}

/// The servers' part of meetings: one is over when every member has pushed.
class ToyMeetings {
 public:
  /// A member from this clock on, or from a later one where some have pushed. Returns which.
  Clock enter(std::uint32_t worker, Clock first) {
    const std::scoped_lock lock(mutex_);
    if (!pushed_.empty()) first = std::max(first, pushed_.rbegin()->first.next());
    if (first < Clock(kClocks)) members_[worker] = first;
    return first;
  }
  void leave(std::uint32_t worker) {
    const std::scoped_lock lock(mutex_);
    members_.erase(worker);
  }
  void push(std::uint32_t worker, Clock clock, const std::vector<std::vector<float>>& arrays) {
    const std::scoped_lock lock(mutex_);
    if (pushed_[clock].insert(worker).second) models_[clock][worker] = arrays;
    if (!results_.emplace(clock, arrays).second) return;
    for (std::size_t array = 0; array < arrays.size(); array += 2) {
      for (float& value : results_[clock][array]) value *= 0.999F;
    }
  }
  /// What all have after a meeting: a little different from what they had.
  std::vector<std::vector<float>> result(Clock clock) {
    const std::scoped_lock lock(mutex_);
    return results_.at(clock);
  }
  /// Of models that differ: their mean, summed in the workers' order. REQUIRES: is_over().
  std::vector<std::vector<float>> mean(Clock clock) {
    const std::scoped_lock lock(mutex_);
    std::vector<std::vector<float>> sum;
    for (const auto& [worker, arrays] : models_.at(clock)) {
      sum.resize(arrays.size());
      for (std::size_t array = 0; array < arrays.size(); array += 2) {
        sum[array].resize(arrays[array].size());
        for (std::size_t i = 0; i < sum[array].size(); ++i) sum[array][i] += arrays[array][i];
      }
    }
    const auto members = static_cast<float>(models_.at(clock).size());
    for (auto& array : sum) {
      for (float& value : array) value /= members;
    }
    return sum;
  }
  bool is_over(Clock clock) {
    const std::scoped_lock lock(mutex_);
    return std::ranges::all_of(members_, [&](const auto& member) {
      return member.second > clock || pushed_.at(clock).contains(member.first);
    });
  }

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, Clock> members_;
  std::map<Clock, std::set<std::uint32_t>> pushed_;
  std::map<Clock, std::vector<std::vector<float>>> results_;
  std::map<Clock, std::map<std::uint32_t, std::vector<std::vector<float>>>> models_;
};

/// A worker that trains numbers with momentum, in a thread, until it is told to die.
class ToyWorker final : public ReplicaValues {
 public:
  ToyWorker(std::uint32_t number, Clock first, bool with_keys, bool shares_memory,
            ToyMeetings& meetings)
      : number_(number), first_(first), meetings_(meetings) {
    for (const std::size_t size : kTables) {
      gradients_.emplace_back(size);
      arrays_.emplace_back(size, 0.0F);
      arrays_.emplace_back(size, 0.0F);
    }
    rank_ = listen_as_rank("127.0.0.1:0", with_keys, board).value();
    if (shares_memory) arena_ = SharedArena::create().value();
  }
  ~ToyWorker() override {
    if (thread_.joinable()) thread_.join();
  }
  ToyWorker(const ToyWorker&) = delete;
  ToyWorker& operator=(const ToyWorker&) = delete;

  void start(Algorithm algorithm, std::optional<Graph> graph, bool asynchronous,
             Duration limit = std::chrono::seconds(20)) {
    limit_ = limit;
    graph_ = graph;
    asynchronous_ = asynchronous;
    thread_ = std::thread([this, algorithm] {
      error = run(algorithm);
      has_ended_ = true;
    });
  }
  /// At once, wherever it is; what it has sent may or may not arrive.
  void die() { dies_ = true; }
  void join() { thread_.join(); }

  [[nodiscard]] bool has_ended() const { return has_ended_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] Clock clock() const { return Clock(clock_.load()); }
  [[nodiscard]] const pb::RankPlace& place() const { return rank_.place; }

  RankBoard board;
  std::string error;                           // read after join()
  std::map<Clock, std::vector<float>> values;  // after each clock that it applied, or was given
  std::uint64_t sent = 0;                      // bytes to other ranks

 private:
  std::vector<std::size_t> gradient_sizes() const override { return kTables; }
  void read_gradient(std::size_t table, std::span<float> into) override {
    std::ranges::copy(gradients_[table], into.begin());
  }
  void write_gradient(std::size_t table, std::span<const float> mean) override {
    std::ranges::copy(mean, gradients_[table].begin());
  }
  void write_no_gradient(std::size_t table) override { std::ranges::fill(gradients_[table], 0.0F); }
  void read_values(std::size_t table, std::span<float> into) override {
    std::ranges::copy(arrays_[2 * table], into.begin());
  }
  void write_mixed(std::size_t table, std::span<const float> before,
                   std::span<const float> mixed) override {
    if (!std::ranges::equal(before, arrays_[2 * table])) error = "mixed with other values";
    std::ranges::copy(mixed, arrays_[2 * table].begin());
  }
  std::vector<std::size_t> array_sizes() const override {
    std::vector<std::size_t> sizes;
    for (const auto& array : arrays_) sizes.push_back(array.size());
    return sizes;
  }
  void read_array(std::size_t array, std::span<float> into) override {
    std::ranges::copy(arrays_[array], into.begin());
  }
  void write_array(std::size_t array, std::span<const float> from) override {
    std::ranges::copy(from, arrays_[array].begin());
  }
  Result<void> begin() override {
    for (std::size_t array = 0; array < arrays_.size(); array += 2) {
      std::ranges::fill(arrays_[array], 1.0F);
    }
    return ok();
  }

  std::string run(Algorithm algorithm) {
    ReplicaGroup::Options options;
    options.job = 5;
    options.first = first_;
    options.algorithm = algorithm;
    options.graph = graph_;
    options.asynchronous = asynchronous_;
    options.shared_memory = arena_;
    options.bucket = Bytes(2000);
    options.limit = limit_;
    options.patience = std::chrono::milliseconds(40);
    options.stops = [this] { return dies_.load(); };
    ReplicaGroup group(*this, board, *rank_.endpoint, options);
    Result<void> trained = train(group);
    if (dies_) {
      rank_.endpoint.reset();
      return "";
    }
    if (!trained) return trained.error().message;
    group.leave();
    sent = group.traffic().sent;
    return error;
  }

  Result<void> train(ReplicaGroup& group) {
    Standing standing{.next = first_};
    TAUT_TRY(standing, group.join(standing));
    group.set_values();
    TAUT_TRY(meet(group, standing));
    clock_ = standing.next.value();
    // The others may have ended all clocks while it joined: then it is given the last values.
    if (standing.next >= Clock(kClocks)) values[standing.next - 1] = arrays_[2];
    while (standing.next < Clock(kClocks)) {
      const Clock clock = standing.next;
      group.begin_clock();
      if (group.computes(clock)) compute(group, clock);
      TAUT_TRY(const bool is_exchanged, group.exchange(standing));
      if (is_exchanged) {
        // Zero, where all that would have computed it are gone.
        if (gradients_[0][0] != 1.0F && gradients_[0][0] != 0.0F) {
          return invalid("the mean of ones is not one");
        }
        if (!graph_ || group.computes(clock)) apply();
        group.set_values();
        standing.next = clock.next();
        standing.has_met = !meets(clock);
      }
      TAUT_TRY(meet(group, standing));
      values[clock] = arrays_[2];
      clock_ = standing.next.value();
      if (dies_) return make_error(ErrorCode::kClosed, "died");
    }
    return ok();
  }

  void compute(ReplicaGroup& group, Clock clock) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (std::size_t table = kTables.size(); table-- > 0;) {
      for (std::size_t i = 0; i < kTables[table]; ++i) {
        const auto noise = static_cast<float>(
            (number_ * 7919 + i * 31 + static_cast<std::size_t>(clock.value())) % 101);
        gradients_[table][i] = 0.1F * arrays_[2 * table][i] + 0.01F * noise;
      }
      gradients_[0][0] = 1.0F;
      group.publish(table);
    }
  }

  void apply() {
    for (std::size_t table = 0; table < kTables.size(); ++table) {
      std::vector<float>& values = arrays_[2 * table];
      std::vector<float>& velocity = arrays_[2 * table + 1];
      for (std::size_t i = 0; i < values.size(); ++i) {
        velocity[i] = 0.9F * velocity[i] + gradients_[table][i];
        values[i] -= 0.05F * velocity[i];
      }
    }
  }

  /// Servers return values that are a little different, and the same to all.
  Result<void> meet(ReplicaGroup& group, Standing& standing) {
    while (!standing.has_met) {
      const Clock clock = standing.next - 1;
      if (group.computes(clock)) {
        meetings_.push(number_, clock, arrays_);
        if (!meetings_.is_over(clock)) {
          if (dies_) return make_error(ErrorCode::kClosed, "died");
          if (group.has_news()) {
            TAUT_TRY(standing, group.join(standing));
          }
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          continue;
        }
        take_result(clock);
        group.set_values();
      }
      TAUT_TRY(group.spread_meeting(standing, clock));
    }
    return ok();
  }

  void take_result(Clock clock) {
    if (!graph_) {
      arrays_ = meetings_.result(clock);
      return;
    }
    auto mean = meetings_.mean(clock);
    for (std::size_t array = 0; array < arrays_.size(); array += 2) {
      arrays_[array] = std::move(mean[array]);
    }
  }

  const std::uint32_t number_;
  const Clock first_;
  std::optional<Graph> graph_;
  bool asynchronous_ = false;
  Duration limit_{0};
  ToyMeetings& meetings_;
  std::vector<std::vector<float>> gradients_;
  std::vector<std::vector<float>> arrays_;  // values and velocity of each table
  std::shared_ptr<SharedArena> arena_;
  RankEndpoint rank_;
  std::atomic<std::int64_t> clock_ = 0;
  std::atomic<bool> dies_ = false;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;
};

/// Workers, and the coordinator's part.
class ToyCluster {
 public:
  ToyCluster(std::uint32_t workers, Algorithm algorithm, bool with_keys, bool shares_memory,
             std::optional<Graph> graph = std::nullopt, bool asynchronous = false)
      : algorithm_(algorithm),
        graph_(graph),
        asynchronous_(asynchronous),
        with_keys_(with_keys),
        shares_memory_(shares_memory) {
    for (std::uint32_t i = 0; i < workers; ++i) add(Clock(0));
    announce();
  }

  /// The furthest of those that live.
  [[nodiscard]] Clock clock() const {
    Clock furthest(0);
    for (const auto& worker : living_) furthest = std::max(furthest, worker->clock());
    return furthest;
  }
  /// lead  clocks until its first one
  void join_one(std::int64_t lead = kLead) {
    add(Clock(clock().value() + lead));
    announce();
  }
  [[nodiscard]] Clock clock_of_newest() const { return living_.back()->clock(); }
  /// `delay`  until the others are told
  void kill(std::size_t which, Duration delay) {
    const auto victim = living_.begin() + static_cast<std::ptrdiff_t>(which % living_.size());
    (*victim)->die();
    (*victim)->join();
    std::this_thread::sleep_for(delay);
    meetings_.leave((*victim)->number());
    dead_.push_back(std::move(*victim));
    living_.erase(victim);
    announce();
  }
  /// Ranks of a group in which sums failed are given another number.
  void look() {
    for (const auto& worker : living_) {
      pb::Progress progress;
      worker->board.report(progress);
      if (progress.rank_place().broken() == number_) {
        announce();
        return;
      }
    }
  }
  [[nodiscard]] std::size_t size() const { return living_.size(); }
  std::vector<std::unique_ptr<ToyWorker>>& finish() {
    while (std::ranges::any_of(living_, [](const auto& one) { return !one->has_ended(); })) {
      look();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (++looks_ > 8000) break;
    }
    for (const auto& worker : living_) worker->join();
    return living_;
  }

 private:
  void add(Clock first) {
    first = meetings_.enter(next_, first);
    if (first >= Clock(kClocks)) return;
    living_.push_back(
        std::make_unique<ToyWorker>(next_++, first, with_keys_, shares_memory_, meetings_));
    living_.back()->board.set_place(living_.back()->place());
    living_.back()->start(algorithm_, graph_, asynchronous_);
  }
  void announce() {
    pb::WorkerJob job;
    job.mutable_group()->set_number(++number_);
    for (const auto& worker : living_) {
      if (worker->has_ended()) continue;
      pb::RankGroup::Rank& rank = *job.mutable_group()->add_ranks();
      rank.set_worker(worker->number());
      rank.set_name("worker" + std::to_string(worker->number()));
      rank.set_host(worker->number() % 2 == 0 ? "even" : "odd");
      *rank.mutable_place() = worker->place();
    }
    for (const auto& worker : living_) {
      job.set_worker(worker->number());
      worker->board.post(job);
    }
  }

  const Algorithm algorithm_;
  const std::optional<Graph> graph_;
  const bool asynchronous_;
  const bool with_keys_;
  const bool shares_memory_;
  ToyMeetings meetings_;
  std::vector<std::unique_ptr<ToyWorker>> living_;
  std::vector<std::unique_ptr<ToyWorker>> dead_;
  std::uint32_t next_ = 0;
  std::uint64_t number_ = 0;
  int looks_ = 0;
};

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

/// All that live ended without an error, with the same values after the last meeting.
void check_ended_alike(const std::vector<std::unique_ptr<ToyWorker>>& workers) {
  const Clock last(kClocks - 1);
  for (const auto& worker : workers) {
    CAPTURE(worker->number());
    CHECK(worker->error == "");
    CHECK(worker->clock() == Clock(kClocks));
    REQUIRE(worker->values.contains(last));
    CHECK(worker->values.at(last) == workers.front()->values.at(last));
    for (const auto& [clock, values] : worker->values) {
      REQUIRE(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }));
    }
  }
}

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
  struct Values final : ReplicaValues {
    std::vector<std::size_t> gradient_sizes() const override { return {4, 5}; }
    void read_gradient(std::size_t, std::span<float> into) override {
      std::ranges::fill(into, 3.0F);
    }
    void write_gradient(std::size_t table, std::span<const float>) override {
      means.push_back(table);
    }
    void write_no_gradient(std::size_t table) override { nothing.push_back(table); }
    void read_values(std::size_t, std::span<float>) override {}
    void write_mixed(std::size_t, std::span<const float>, std::span<const float>) override {}
    std::vector<std::size_t> array_sizes() const override { return {}; }
    void read_array(std::size_t, std::span<float>) override {}
    void write_array(std::size_t, std::span<const float>) override {}
    Result<void> begin() override { return ok(); }
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

TEST_CASE("what may arrive early follows the size of the model", "[collective][gossip]") {
  const std::uint64_t rest = GroupOptions().early.value();
  const std::uint64_t model = 3ULL << 30U;
  const auto models = [&](std::optional<Graph> graph, std::uint32_t ranks) {
    const std::uint64_t limit = early_limit(graph, Rank(0), ranks, Bytes(model)).value();
    REQUIRE((limit - rest) % model == 0);
    return (limit - rest) / model;
  };
  // A clock of each neighbour that sends to this rank.
  CHECK(models(Graph::kRing, 2) == 1);
  CHECK(models(Graph::kRing, 8) == 2);
  CHECK(models(Graph::kHypercube, 8) == 3);
  // Ranks at distances 1, 2 and 4, each up to three clocks ahead.
  CHECK(models(Graph::kExponential, 8) == 9);
  CHECK(models(std::nullopt, 8) == 8);
  CHECK(models(Graph::kRing, 1) == 0);
  CHECK(models(Graph::kExponential, 1) == 0);
  CHECK(early_limit(Graph::kRing, Rank(0), 8, Bytes(0)).value() == rest);
}

TEST_CASE("a sum continues while a rank that has added its part computes",
          "[collective][replicas]") {
  struct Values final : ReplicaValues {
    std::vector<std::size_t> gradient_sizes() const override { return {1000}; }
    void read_gradient(std::size_t, std::span<float> into) override {
      std::ranges::fill(into, 3.0F);
    }
    void write_gradient(std::size_t, std::span<const float> mean) override { first = mean[0]; }
    void write_no_gradient(std::size_t) override {}
    void read_values(std::size_t, std::span<float>) override {}
    void write_mixed(std::size_t, std::span<const float>, std::span<const float>) override {}
    std::vector<std::size_t> array_sizes() const override { return {}; }
    void read_array(std::size_t, std::span<float>) override {}
    void write_array(std::size_t, std::span<const float>) override {}
    Result<void> begin() override { return ok(); }
    std::atomic<float> first = 0;
  };
  std::array<Values, 2> values;
  std::array<RankBoard, 2> boards;
  std::array<RankEndpoint, 2> ranks;
  pb::WorkerJob job;
  job.mutable_group()->set_number(1);
  for (std::uint32_t i = 0; i < 2; ++i) {
    ranks[i] = listen_as_rank("127.0.0.1:0", false, boards[i]).value();
    pb::RankGroup::Rank& rank = *job.mutable_group()->add_ranks();
    rank.set_worker(i);
    *rank.mutable_place() = ranks[i].place;
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    job.set_worker(i);
    boards[i].post(job);
  }
  const auto train = [&](std::uint32_t i, const std::function<void()>& compute) {
    ReplicaGroup group(values[i], boards[i], *ranks[i].endpoint, ReplicaGroup::Options());
    auto standing = group.join({.next = Clock(0)});
    if (!standing) return;
    group.publish(0);
    compute();
    if (group.exchange(standing.value())) group.leave();
  };
  std::thread fast([&] { train(0, [] {}); });
  train(1, [&] {
    for (int i = 0; i < 500 && values[0].first == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(values[0].first == 3);
  });
  fast.join();
  CHECK(values[1].first == 3);
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
        "rank 1 (worker1 at 127.0.0.1:1) did not answer within 0.1 s: each worker must reach the "
        "others at these addresses");
}

TEST_CASE("workers that average with neighbours end in the same bits each time",
          "[collective][gossip]") {
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  const bool shares_memory = GENERATE(false, true);
  CAPTURE(to_string(graph), shares_memory);
  ToyCluster cluster(4, Algorithm::kRing, shares_memory, shares_memory, graph);
  ToyCluster again(4, Algorithm::kRing, false, false, graph);
  const auto& workers = cluster.finish();
  const auto& others = again.finish();
  check_ended_alike(workers);
  REQUIRE(others.size() == workers.size());
  bool differ = false;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    CHECK(workers[i]->values.size() == kClocks);
    CHECK(workers[i]->values == others[i]->values);
    differ |= workers[i]->values != workers.front()->values;
  }
  CHECK(differ);
}

TEST_CASE("workers that average send their model to each neighbour at each clock",
          "[collective][gossip]") {
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  constexpr std::uint32_t kWorkers = 4;
  CAPTURE(to_string(graph));
  ToyCluster cluster(kWorkers, Algorithm::kRing, false, false, graph);
  const auto& workers = cluster.finish();
  check_ended_alike(workers);
  const std::size_t values = kTables[0] + kTables[1] + kTables[2];
  for (const auto& worker : workers) {
    // Neighbours are counted, not which they are: ranks are in the order of hosts.
    const std::size_t degree = neighbours_of(graph, Rank(0), kWorkers).to.size();
    // In the new group six numbers of each rank, around a ring.
    const std::size_t agreed = 2 * (kWorkers - 1) * 6;
    CHECK(worker->sent == sizeof(float) * (kClocks * degree * values + agreed));
  }
}

TEST_CASE("without a common clock each active worker averages once a clock with a passive one",
          "[collective][gossip]") {
  const Graph graph = GENERATE(from_range(std::begin(test::kGraphs), std::end(test::kGraphs)));
  const std::uint32_t count = GENERATE(2U, 3U, 4U, 5U);
  const bool shares_memory = GENERATE(false, true);
  CAPTURE(to_string(graph), count, shares_memory);
  ToyCluster cluster(count, Algorithm::kRing, shares_memory, shares_memory, graph, true);
  const auto& workers = cluster.finish();
  check_ended_alike(workers);
  // A request and an answer for each of the active ones' clocks; and in the new group six numbers
  // of each rank, around a ring.
  std::uint64_t active = 0;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    active += is_active(graph, Rank(rank), count) ? 1 : 0;
  }
  const std::uint64_t values = kTables[0] + kTables[1] + kTables[2];
  const std::uint64_t agreed = std::uint64_t{2} * (count - 1) * 6 * count;
  std::uint64_t sent = 0;
  for (const auto& worker : workers) sent += worker->sent;
  CHECK(sent == sizeof(float) * (2 * active * kClocks * values + agreed));
}

TEST_CASE("workers that average with neighbours die and join, and all that are left end alike",
          "[collective][gossip]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{13}));
  const bool asynchronous = GENERATE(false, true);
  CAPTURE(seed, asynchronous);
  std::mt19937_64 random(seed);
  const Graph graph = test::kGraphs[random() % std::size(test::kGraphs)];
  ToyCluster cluster(static_cast<std::uint32_t>(2 + random() % 3), Algorithm::kRing,
                     random() % 2 == 0, random() % 2 == 0, graph, asynchronous);
  while (cluster.clock() < Clock(kClocks - 12)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    if (random() % 2 == 0 && cluster.size() > 1) {
      cluster.kill(random() % 8, std::chrono::milliseconds(random() % 30));
    } else if (cluster.size() < 5) {
      cluster.join_one();
    }
    cluster.look();
  }
  check_ended_alike(cluster.finish());
}

}  // namespace taut::collective
