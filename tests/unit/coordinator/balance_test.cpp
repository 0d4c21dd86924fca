#include <numeric>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;

namespace taut {
namespace {

constexpr std::uint32_t kEqual = 64;

/// A job that balances on workers of these speeds.
struct Balanced {
  explicit Balanced(const std::vector<double>& slowness, std::uint32_t slack = 0,
                    FakeNetwork network = {}, std::uint64_t seed = 1)
      : cluster(seed, network), workers(slowness.size()) {
    cluster.add_server("s0");
    for (std::size_t i = 0; i < workers; ++i) {
      cluster.add_worker(name(i)).worker.slowness = slowness[i];
    }
    cluster.run_for(2s);
    pb::Job definition = make_job(static_cast<std::uint32_t>(workers), 1000000, slack);
    definition.set_balance(true);
    pb::LayerParameter& layer = *definition.mutable_net_param()->add_layer();
    layer.set_type("Data");
    layer.mutable_data_param()->set_batch_size(kEqual);
    const pb::SubmitReply reply = cluster.submit(definition);
    REQUIRE(reply.error().empty());
    job = reply.job();
  }

  static std::string name(std::size_t i) { return "w" + std::to_string(i); }
  FakeWorker& worker(std::size_t i) { return cluster.at(name(i)).worker; }
  [[nodiscard]] std::uint32_t share(std::size_t i) {
    return worker(i).parts().empty() ? 0 : worker(i).parts().rbegin()->second.records;
  }
  /// No two workers have computed the same record of a batch, and none is left out; of the clocks
  /// that all of them have begun.
  void check_parts() {
    for (const auto& [clock, first] : worker(0).parts()) {
      std::uint64_t records = 0;
      for (std::size_t i = 0; i < workers; ++i) {
        const auto part = worker(i).parts().find(clock);
        if (part == worker(i).parts().end()) return;
        INFO("clock " << clock << ", worker " << i);
        CHECK(part->second.first == records);
        records += part->second.records;
      }
      CHECK(records == kEqual * workers);
    }
  }

  FakeCluster cluster;
  std::size_t workers;
  std::uint64_t job = 0;
};

}  // namespace

TEST_CASE("a worker that is three times as slow gets a third of the records", "[coordinator]") {
  for (const std::uint32_t slack : {0U, 3U}) {
    Balanced run({1, 3}, slack);
    REQUIRE(run.cluster.run_until([&] { return run.share(1) == 32; }));
    CHECK(run.cluster.run_until([&] { return run.share(0) == 96; }));
    run.check_parts();
    const std::int64_t clock = run.worker(0).clock();
    CHECK(run.cluster.run_until([&] { return run.worker(0).clock() > clock + 200; }));
    CHECK(run.cluster.status(run.job).workers(1).progress().share() == 32);
    run.check_parts();
  }
}

TEST_CASE("workers that are equally fast keep equal shares", "[coordinator]") {
  Balanced run({1, 1.05, 0.98});
  REQUIRE(run.cluster.run_until([&] { return run.worker(0).clock() > 500; }));
  for (std::size_t i = 0; i < 3; ++i) CHECK(run.share(i) == kEqual);
  CHECK(run.worker(0).job()->shares().empty());
}

TEST_CASE("shares are decided again where a speed has changed", "[coordinator]") {
  Balanced run({1, 3});
  REQUIRE(run.cluster.run_until([&] { return run.share(1) == 32; }));
  run.worker(1).slowness = 1;
  CHECK(run.cluster.run_until([&] { return run.share(1) > 58 && run.share(1) < 70; }));
  run.worker(1).slowness = 3;
  CHECK(run.cluster.run_until([&] { return run.share(1) < 40; }));
  run.check_parts();
  // An update of the clock before a change may be weighed after it.
  CHECK(run.worker(0).job()->shares_size() >= 3);
}

TEST_CASE("the shares of the others make a batch of theirs when a worker is lost or joins",
          "[coordinator]") {
  Balanced run({1, 2, 2});
  REQUIRE(run.cluster.run_until([&] { return run.share(0) == 96; }));
  run.cluster.kill("w2");
  REQUIRE(run.cluster.run_until([&] { return run.share(0) + run.share(1) == 2 * kEqual; }));
  CHECK(run.cluster.run_until([&] { return run.share(1) < 50; }));
  run.cluster.add_worker("w2").worker.slowness = 1;
  REQUIRE(run.cluster.run_until([&] { return run.share(2) > 0; }));
  CHECK(run.cluster.run_until([&] { return run.share(1) < 45 && run.share(2) > 70; }));
  CHECK(run.cluster.broken().empty());
}

TEST_CASE("a proposal that a dead worker does not answer is withdrawn, and the others train on",
          "[coordinator]") {
  constexpr std::uint32_t kNeverWaits = 1'000'000;
  for (int i = 0; i < 20; ++i) {
    INFO("killed after " << i << " times 100 ms");
    Balanced run({1, 3, 1}, kNeverWaits);
    run.cluster.run_for(i * 100ms);
    run.cluster.kill("w2");
    // Longer than a proposal lasts, and shorter than it takes to declare a worker lost.
    run.cluster.run_for(5s);
    const std::int64_t clock = run.worker(0).clock();
    run.cluster.run_for(1s);
    CHECK(run.worker(0).clock() > clock);
    run.check_parts();
    // Those of now in proportion, where shares had been made before: 95 and 33.
    CHECK(run.cluster.run_until(
        [&] { return run.share(0) + run.share(1) == 2 * kEqual && run.share(1) < 35; }));
  }
}

TEST_CASE("no record is computed twice where a worker was ahead of the others and is lost",
          "[coordinator]") {
  constexpr std::uint32_t kNeverWaits = 1'000'000;
  for (int i = 0; i < 10; ++i) {
    INFO("killed after " << i << " times 100 ms more");
    Balanced run({1, 4, 4}, kNeverWaits);
    REQUIRE(run.cluster.run_until([&] { return run.share(0) >= 2 * kEqual; }));
    run.worker(1).stuck = run.worker(2).stuck = true;
    run.cluster.run_for(1s + i * 100ms);
    const auto lost = run.worker(0).parts();
    run.cluster.kill("w0");
    run.cluster.run_for(20s);  // it is declared lost
    run.worker(1).stuck = run.worker(2).stuck = false;
    const auto others = [&] { return run.share(1) + run.share(2); };
    REQUIRE(run.cluster.run_until([&] { return others() == 2 * kEqual; }));
    REQUIRE(run.cluster.run_until(
        [&] { return run.worker(1).parts().rbegin()->first > lost.rbegin()->first; }));
    for (const auto& [clock, part] : lost) {
      for (const std::size_t other : {1U, 2U}) {
        const auto found = run.worker(other).parts().find(clock);
        if (found == run.worker(other).parts().end()) continue;
        INFO("clock " << clock << ", worker " << other);
        CHECK(found->second.first >= part.records);
      }
    }
    CHECK(run.cluster.broken().empty());
  }
}

TEST_CASE("a worker whose clocks last as long with any share keeps its share over restarts",
          "[coordinator]") {
  Balanced run({1, 1});
  for (const std::size_t i : {0U, 1U}) {
    run.worker(i).slowness = 0;
    run.worker(i).fixed_s = i == 0 ? 0.01 : 0.03;
  }
  // From one share alone, time seems to be in proportion to the records.
  REQUIRE(run.cluster.run_until([&] { return run.share(1) == 32; }));
  for (int i = 0; i < 3; ++i) {
    run.cluster.run_for(60s);
    CHECK(run.share(1) == 32);
    run.cluster.restart_coordinator(500ms);
  }
}

TEST_CASE("shares that were proposed are made by a coordinator that restarted", "[coordinator]") {
  for (int i = 0; i < 20; ++i) {
    Balanced run({1, 3}, 2);
    run.cluster.run_for(1s + i * 100ms);
    run.cluster.restart_coordinator(500ms);
    CHECK(run.cluster.run_until([&] { return run.share(1) == 32; }));
    run.check_parts();
  }
}

TEST_CASE("no record is computed twice over a network that loses and reorders", "[coordinator]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Balanced run({1, 2.5, 4}, static_cast<std::uint32_t>(seed % 3),
                 {.drop = 0.2, .duplicate = 0.2, .delay_max = Duration(300'000)}, seed);
    CHECK(run.cluster.run_until([&] { return run.share(0) > 2 * run.share(1); }, 300s));
    run.check_parts();
  }
}

}  // namespace taut
