#include <string>
#include <vector>

#include "proto/config/exchange/settle_exchange.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;

namespace taut {
namespace {

/// A job whose workers sum among themselves.
struct Summing {
  explicit Summing(std::uint32_t workers, std::int32_t clocks = 1000000) {
    cluster.add_server("s0");
    for (std::uint32_t i = 0; i < workers; ++i) cluster.add_worker("w" + std::to_string(i));
    cluster.run_for(1s);
    definition = make_job(workers, clocks, 0);
    definition.mutable_exchange()->set_type(pb::WorkerExchange::ALLREDUCE);
    settle_exchange(definition);
  }
  void submit() {
    const pb::SubmitReply reply = cluster.submit(definition);
    REQUIRE(reply.error() == "");
    job = reply.job();
  }
  FakeWorker& worker(const std::string& name) { return cluster.at(name).worker; }
  /// The ranks that a worker knows, by their names.
  std::vector<std::string> ranks(const std::string& name) {
    std::vector<std::string> names;
    if (!worker(name).job()) return names;
    for (const auto& rank : worker(name).job()->group().ranks()) names.push_back(rank.name());
    return names;
  }
  std::uint64_t number(const std::string& name) {
    return worker(name).job() ? worker(name).job()->group().number() : 0;
  }

  FakeCluster cluster;
  pb::Job definition;
  std::uint64_t job = 0;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("workers that sum know each other once all of them listen", "[coordinator][ranks]") {
  Summing run(3);
  run.worker("w1").listens = false;
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.worker("w2").job().has_value(); }));
  run.cluster.run_for(2s);
  CHECK(run.ranks("w0").empty());
  run.worker("w1").listens = true;
  const Names all = {"w0", "w1", "w2"};
  for (const char* name : {"w0", "w1", "w2"}) {
    REQUIRE(run.cluster.run_until([&] { return run.ranks(name) == all; }));
    CHECK(run.number(name) == 1);
  }
  CHECK(run.worker("w2").job()->group().ranks(1).place().address() == "host:1001");
}

TEST_CASE("workers that sum learn who was lost, and who has come", "[coordinator][ranks]") {
  Summing run(3);
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.ranks("w0").size() == 3; }));
  run.cluster.kill("w1");
  REQUIRE(run.cluster.run_until([&] { return run.ranks("w0") == Names{"w0", "w2"}; }));
  CHECK(run.number("w0") == 2);
  run.cluster.add_worker("w3");
  // While it does not listen the others need not wait for it.
  run.worker("w3").listens = false;
  REQUIRE(run.cluster.run_until([&] { return run.worker("w3").job().has_value(); }));
  run.cluster.run_for(2s);
  CHECK(run.ranks("w0") == Names{"w0", "w2"});
  run.worker("w3").listens = true;
  REQUIRE(run.cluster.run_until([&] { return run.ranks("w3") == Names{"w0", "w2", "w3"}; }));
}

TEST_CASE("a group of ranks in which sums failed is formed again", "[coordinator][ranks]") {
  Summing run(2);
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.number("w1") == 1; }));
  run.worker("w0").broken = 1;
  REQUIRE(run.cluster.run_until([&] { return run.number("w1") == 2; }));
  run.cluster.run_for(5s);
  CHECK(run.number("w1") == 2);
  CHECK(run.ranks("w1").size() == 2);
}

TEST_CASE("the others keep their group where a rank has finished", "[coordinator][ranks]") {
  Summing run(3, 500);
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.ranks("w0").size() == 3; }));
  run.worker("w0").tests = true;
  REQUIRE(run.cluster.run_until([&] { return run.worker("w0").clock() == 500; }));
  run.cluster.run_for(3s);
  CHECK(run.number("w0") == 1);
  run.cluster.kill("w0");
  run.cluster.run_for(5s);
  CHECK(run.number("w1") == 1);
}

TEST_CASE("what cannot be combined with sums at workers is refused", "[coordinator][ranks]") {
  Summing run(2);
  run.definition.mutable_consistency()->mutable_periodic_averaging()->set_interval(7);
  CHECK(run.cluster.submit(run.definition).error() ==
        "exchange: interval is 100, and that of consistency { periodic_averaging } 7; omit the "
        "latter");
}

}  // namespace taut
