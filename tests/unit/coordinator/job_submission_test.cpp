// Which jobs are accepted, what they wait for, and what may be changed about them.
#include "proto/config/exchange/settle_exchange.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/filled_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace taut {
namespace {

using test::fill;

}  // namespace

TEST_CASE("a job submitted to no workers, or to no servers, is refused with the way out",
          "[coordinator]") {
  FakeCluster cluster;
  CHECK_THAT(cluster.submit(make_job(0)).error(), Contains("no server") && Contains("start one"));
  cluster.add_server("s0");
  cluster.run_for(1s);
  const pb::SubmitReply reply = cluster.submit(make_job(0));
  CHECK(reply.job() == 0);
  CHECK(reply.error() == "no worker has joined; start one with \"tautline-worker --config FILE\"");
}

TEST_CASE("a job whose name is no text is refused: no peer could read what it is told of it",
          "[coordinator]") {
  FakeCluster cluster;
  cluster.add_server("s0");
  cluster.add_worker("w0");
  cluster.run_for(1s);
  pb::Job job = make_job(1);
  job.set_name("net\xFF");
  const pb::SubmitReply reply = cluster.submit(job);
  CHECK(reply.job() == 0);
  CHECK(reply.error() == "name must be UTF-8 text, and holds other bytes");
}

TEST_CASE("a job that cannot work with any model is refused", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  pb::Job job = make_job(0);
  const auto error = [&] { return cluster.submit(job).error(); };
  SECTION("no solver") {
    job.clear_solver_param();
    CHECK_THAT(error(), Contains("solver_param"));
  }
  SECTION("no iterations") {
    job.mutable_solver_param()->set_max_iter(0);
    CHECK_THAT(error(), Contains("max_iter is 0"));
  }
  SECTION("BSP with a slack") {
    job.mutable_consistency()->set_mode(pb::Consistency::BSP);
    job.mutable_consistency()->set_slack(3);
    CHECK_THAT(error(), Contains("BSP") && Contains("slack is 3"));
  }
  SECTION("too many workers") {
    job.set_workers(100000);
    CHECK_THAT(error(), Contains("100000"));
  }
}

TEST_CASE("the three modes are a slack and how updates apply", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  pb::Job job = make_job(0);
  pb::Consistency& consistency = *job.mutable_consistency();
  const auto started = [&] {
    const std::uint64_t id = cluster.submit(job).job();
    REQUIRE(cluster.run_until([&] { return cluster.at("s0").server.state_of(id) != nullptr; }));
    return *cluster.at("s0").server.state_of(id);
  };
  SECTION("SSP") {
    consistency.set_slack(3);
    const pb::ServerJob state = started();
    CHECK(state.slack() == 3);
    CHECK(state.modes(0).mode() == pb::ModeChange::ON_ARRIVAL);
  }
  SECTION("SSP with slack 0 is BSP") {
    consistency.set_slack(0);
    const pb::ServerJob state = started();
    CHECK(state.modes(0).mode() == pb::ModeChange::AGGREGATE);
    CHECK(cluster.status(state.job()).mode() == "BSP");
  }
  SECTION("BSP") {
    consistency.clear_slack();
    consistency.set_mode(pb::Consistency::BSP);
    const pb::ServerJob state = started();
    CHECK(state.slack() == 0);
    CHECK(state.modes(0).mode() == pb::ModeChange::AGGREGATE);
  }
  SECTION("ASYNC") {
    consistency.clear_slack();
    consistency.set_mode(pb::Consistency::ASYNC);
    const pb::ServerJob state = started();
    CHECK(Slack(state.slack()).is_unbounded());
    CHECK(cluster.status(state.job()).mode() == "ASYNC");
  }
}

TEST_CASE("a job that needs more workers than have joined waits, and reports how many",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  const pb::SubmitReply reply = cluster.submit(make_job(3));
  CHECK(reply.error().empty());
  CHECK(reply.message() == "waits for 2 more workers: 3 required, 1 joined");
  cluster.add_worker("w1");
  cluster.run_for(2s);
  CHECK(cluster.status(reply.job()).state() == pb::SUBMITTED);
  CHECK(cluster.status(reply.job()).message() == "waits for 1 more worker: 3 required, 2 joined");
  cluster.add_worker("w2");
  CHECK(cluster.run_until_state(reply.job(), pb::RUNNING));
}

TEST_CASE("a repeated submission is the same job", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  const std::uint64_t job = cluster.submit(make_job(0), 77).job();
  CHECK(cluster.submit(make_job(0), 77).job() == job);
  CHECK(cluster.submit(make_job(0), 78).job() == job + 1);
}

TEST_CASE("the definitions of waiting jobs are bounded in bytes", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  pb::Job large = make_job(5);
  large.mutable_net_param()->set_name(std::string(15U << 20U, 'x'));
  for (std::uint64_t token = 1; token <= 3; ++token) {
    CHECK(cluster.submit(large, token).error().empty());
  }
  const pb::SubmitReply refused = cluster.submit(large, 4);
  CHECK(refused.job() == 0);
  CHECK_THAT(refused.error(), StartsWith("the definitions of 3 waiting jobs and this one have"));
  CHECK(cluster.stop(1).error().empty());
  CHECK(cluster.submit(large, 4).error().empty());
}

TEST_CASE("a job whose policy and solver do not fit is refused when it is submitted",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  pb::Job job = make_job(2, 2000);
  job.mutable_consistency()->set_look_ahead(true);
  job.mutable_solver_param()->clear_momentum();
  CHECK_THAT(cluster.submit(job).error(), Contains("look_ahead follows the velocity"));
}

TEST_CASE("a job whose fields do not fit its net's rows is refused when it is submitted",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  pb::Job job = make_job(1, 2000);
  pb::LayerParameter& layer = *job.mutable_net_param()->add_layer();
  layer.set_name("rows");
  layer.set_type("Embed");
  layer.mutable_embed_param()->set_by_rows(true);
  pb::Job compressed = job;
  compressed.mutable_compression();
  CHECK(
      cluster.submit(compressed, 1).error() ==
      "compression cannot be combined with embed_param.by_rows of \"rows\": rows are sent as they "
      "are; omit one of them");
  pb::Job reduced = job;
  reduced.clear_consistency();
  reduced.mutable_exchange()->set_type(pb::WorkerExchange::ALLREDUCE);
  settle_exchange(reduced);
  CHECK_THAT(cluster.submit(reduced, 2).error(),
             StartsWith("exchange.type ALLREDUCE cannot be combined with embed_param.by_rows"));
  CHECK(cluster.submit(job, 3).error().empty());
}

TEST_CASE("a slack that conflicts with a job's policy is refused, and the job continues",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  pb::Job job = make_job(2, 2000);
  pb::Consistency& consistency = *job.mutable_consistency();
  consistency.Clear();
  SECTION("backup workers") {
    consistency.set_mode(pb::Consistency::BSP);
    consistency.set_backup_workers(1);
    const std::uint64_t id = cluster.submit(job).job();
    CHECK_THAT(cluster.set_slack(id, 2).error(),
               Contains("backup_workers needs mode: BSP, not SSP"));
    CHECK(cluster.set_slack(id, 0).error().empty());
  }
  SECTION("compensated delays") {
    consistency.set_slack(2);
    consistency.mutable_delay_compensation();
    const std::uint64_t id = cluster.submit(job).job();
    CHECK_THAT(cluster.set_slack(id, 0).error(), Contains("needs mode: SSP or ASYNC"));
    CHECK(cluster.set_slack(id, 5).error().empty());
    CHECK(cluster.set_slack(id, Clock::never().value()).error().empty());
  }
  SECTION("a slack that moves by itself") {
    consistency.mutable_dynamic_slack()->set_least(2);
    consistency.mutable_dynamic_slack()->set_most(6);
    const std::uint64_t id = cluster.submit(job).job();
    REQUIRE(cluster.run_until_state(id, pb::RUNNING));
    CHECK(cluster.status(id).slack() == 2);
    CHECK_THAT(cluster.set_slack(id, 3).error(), Contains("between 2 and 6 by itself"));
  }
}

}  // namespace taut
