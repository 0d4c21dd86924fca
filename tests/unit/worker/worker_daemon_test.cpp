#include "worker/worker_daemon.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proto/config/text.hpp"
#include "proto/wire_version.hpp"
#include "tests/e2e/fake_coordinator.hpp"
#include "tests/support/catch.hpp"

namespace taut::worker {
namespace {

constexpr std::uint64_t kLife = 1;  // the worker's first

/// What a coordinator answers to a report.
struct Answer {
  std::optional<pb::WorkerJob> order{};
  bool ends = false;     // the worker's process
  bool is_lost = false;  // the worker, which has a new life from its next hello on
};

pb::ControlMessage message_of(const Answer& answer) {
  pb::ControlMessage message;
  if (answer.order) {
    *message.mutable_worker_job() = *answer.order;
  } else {
    message.mutable_heartbeat_reply()->set_known(!answer.is_lost);
    message.mutable_heartbeat_reply()->set_leaves(answer.ends);
    message.mutable_heartbeat_reply()->set_is_drained(answer.ends);
  }
  return message;
}

/// What a worker reports until an answer ends it, or there are too many reports.
/// answer  to a report; called on another thread
std::vector<pb::Progress> reports_of_worker(
    const std::function<Answer(const pb::Progress&)>& answer) {
  constexpr std::size_t kMaxReports = 2000;
  std::vector<pb::Progress> reports;
  std::uint64_t life = kLife;
  {
    const test::FakeCoordinator fake([&](const pb::ControlMessage& message) {
      pb::ControlMessage hello;
      hello.mutable_hello_reply()->set_accepted(true);
      hello.mutable_hello_reply()->set_wire_version(kWireVersion);
      hello.mutable_hello_reply()->set_incarnation(life);
      if (!message.has_heartbeat()) return std::optional(hello);
      reports.push_back(message.heartbeat().progress());
      if (reports.size() >= kMaxReports) return std::optional(message_of({.ends = true}));
      const Answer answered = answer(reports.back());
      life += answered.is_lost ? 1 : 0;
      return std::optional(message_of(answered));
    });
    pb::ClusterConfig config;
    const std::string text = fmt::format(
        "coordinator_address: '{}' insecure: true heartbeat_interval_s: 0.02 "
        "worker {{ name: 'worker0' device: CPU }}",
        fake.address());
    REQUIRE(parse_text(text, "config", config).has_value());
    const auto daemon = WorkerDaemon::start(config, "");
    REQUIRE(daemon.has_value());
    const auto ended = daemon.value()->run([] { return Result<void>(ok()); });
    INFO((ended ? std::string() : ended.error().message));
    CHECK(ended.has_value());
  }
  return reports;
}

/// The order to train a job, whose only shard never answers.
pb::WorkerJob order_of(std::uint64_t job, std::uint64_t revision, std::uint64_t life = kLife) {
  pb::WorkerJob order;
  order.set_job(job);
  order.set_revision(revision);
  order.set_incarnation(life);
  order.set_slots(1);
  order.add_shards()->set_address("127.0.0.1:9");
  const char* const text =
      "name: 'tiny' seed: 1 "
      "net_param { "
      "  layer { name: 'in' type: 'DummyData' top: 'data' top: 'label' "
      "          dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } "
      "            data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' } "
      "            classes: 0 classes: 2 } } "
      "  layer { name: 'one' type: 'InnerProduct' bottom: 'data' top: 'one' "
      "          inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } } "
      "  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'one' bottom: 'label' top: 'loss' } "
      "} "
      "solver_param { base_lr: 0.1 max_iter: 10 }";
  REQUIRE(parse_text(text, "job", *order.mutable_definition()).has_value());
  return order;
}

/// What a coordinator answers to a report about a job that has ended.
pb::WorkerJob stop_of(std::uint64_t job, std::uint64_t revision) {
  pb::WorkerJob order;
  order.set_job(job);
  order.set_revision(revision);
  order.set_incarnation(kLife);
  order.set_stop(true);
  order.set_stop_reason("the job has ended");
  return order;
}

}  // namespace

TEST_CASE("a late order to stop an earlier job does not end the job that runs", "[daemon]") {
  const pb::WorkerJob second = order_of(2, 1);
  constexpr int kReports = 5;
  int after = 0;  // reports after the late order
  const auto reports = reports_of_worker([&](const pb::Progress& progress) -> Answer {
    if (after == 0 && progress.job() != 2) return {second};
    if (after++ == 0) return {stop_of(1, 9)};
    return {.ends = after > kReports};
  });
  REQUIRE(reports.size() > kReports);
  for (std::size_t i = reports.size() - kReports; i < reports.size(); ++i) {
    CHECK(reports[i].job() == 2);
    CHECK(!reports[i].finished());
    CHECK(reports[i].error().empty());
  }
}

TEST_CASE("a new order of a job that the worker has finished does not end the job that runs",
          "[daemon]") {
  const pb::WorkerJob first = order_of(1, 1);
  const pb::WorkerJob second = order_of(2, 1);
  pb::WorkerJob newer = order_of(1, 9);
  newer.mutable_checkpoint()->set_number(1);
  newer.mutable_checkpoint()->set_clock(10);
  constexpr int kReports = 5;
  int after = 0;  // reports after the new order
  const auto reports = reports_of_worker([&](const pb::Progress& progress) -> Answer {
    if (after == 0 && progress.job() == 0) return {first};
    if (after == 0 && progress.job() == 1) return {progress.finished() ? second : stop_of(1, 2)};
    if (after++ == 0) return {newer};
    return {.ends = after > kReports};
  });
  REQUIRE(reports.size() > kReports);
  for (std::size_t i = reports.size() - kReports; i < reports.size(); ++i) {
    CHECK(reports[i].job() == 2);
    CHECK(!reports[i].finished());
    CHECK(reports[i].error().empty());
  }
}

TEST_CASE("a worker reports no revision of an order that only stops its run", "[daemon]") {
  constexpr std::uint64_t kRevision = 5;
  const pb::WorkerJob order = order_of(1, kRevision);
  const auto reports = reports_of_worker([&](const pb::Progress& progress) -> Answer {
    if (progress.job() == 0) return {order};
    if (progress.finished()) return {.ends = true};
    return {stop_of(1, progress.revision() + 1)};
  });
  REQUIRE(reports.back().finished());
  CHECK(reports.back().error().empty());
  for (const pb::Progress& report : reports) {
    if (report.job() == 1) CHECK(report.revision() == kRevision);
  }
}

TEST_CASE("a worker reports until its run has ended, and then begins the next job", "[daemon]") {
  const pb::WorkerJob first = order_of(1, 1);
  const pb::WorkerJob second = order_of(2, 1);
  const auto reports = reports_of_worker([&](const pb::Progress& progress) -> Answer {
    if (progress.job() == 2) return {.ends = true};
    return {progress.job() == 0 ? first : second};
  });
  const auto begun = std::ranges::find(reports, 2U, &pb::Progress::job);
  REQUIRE(begun != reports.end());
  CHECK(!begun->finished());
  const auto ended = std::ranges::find(reports, true, &pb::Progress::finished);
  REQUIRE(ended < begun);
  CHECK(ended->job() == 1);
  CHECK(ended->error().empty());
}

TEST_CASE("a worker that was declared lost trains again in its next life", "[daemon]") {
  const pb::WorkerJob first = order_of(1, 1);
  const pb::WorkerJob again = order_of(1, 2, kLife + 1);
  bool is_lost = false;
  const auto reports = reports_of_worker([&](const pb::Progress& progress) -> Answer {
    if (progress.incarnation() > kLife) return {.ends = true};
    if (is_lost) return {again};
    if (progress.job() == 0) return {first};
    is_lost = true;
    return {.is_lost = true};
  });
  const auto begun = std::ranges::find(reports, kLife + 1, &pb::Progress::incarnation);
  REQUIRE(begun != reports.end());
  CHECK(begun->job() == 1);
  CHECK(!begun->finished());
}

}  // namespace taut::worker
