// Each staleness policy repeats itself: its parameters, its times and what workers write down.
#include <google/protobuf/text_format.h>

#include <filesystem>
#include <map>
#include <string>

#include "common/files/file.hpp"
#include "lab/training/training_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

namespace fs = std::filesystem;

struct Ended {
  TrainingOutcome outcome;
  std::map<std::string, std::string> metrics;  // by file
};

/// Three workers of uneven speed, one of whose hosts goes away and returns.
Ended train_under(const std::string& consistency, std::uint64_t seed) {
  const test::TempFolder folder;
  TrainingOptions options = tiny_training(
      "solver_param { base_lr: 0.05 momentum: 0.9 max_iter: 60 } straggler { worker: 1 slowdown: 2 "
      "} ",
      "compute { clock_ms: 20 spread: LOGNORMAL deviation: 0.5 } "
      "outage { host: \"w2\" at_s: 0.5 back_s: 0.1 } control { heartbeat_limit_s: 0.5 }");
  pb::Consistency& asked = *options.job.mutable_consistency();
  asked.Clear();
  REQUIRE(google::protobuf::TextFormat::ParseFromString(consistency, &asked));
  options.seed = seed;
  options.records.set_metrics(true);
  options.records.set_folder(folder.path().string());
  Ended ended{.outcome = run_to_end(options), .metrics = {}};
  CHECK(ended.outcome.job.state() == pb::DONE);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.path().filename() != "metrics.csv") continue;
    ended.metrics[entry.path().lexically_relative(folder.path()).string()] =
        read_file(entry.path()).value();
  }
  return ended;
}

}  // namespace

TEST_CASE("each staleness policy repeats bit for bit, and another seed is another run", "[lab]") {
  const char* const kPolicies[] = {
      "mode: BSP",
      "mode: BSP backup_workers: 1",
      "mode: BSP periodic_averaging { interval: 5 }",
      // DiLoCo, its streaming kind, and FedBuff.
      "mode: BSP periodic_averaging { interval: 5 outer { lr: 0.7 momentum: 0.9 } }",
      "mode: SSP slack: 1 periodic_averaging { interval: 6 fragments: 2 outer { } }",
      "mode: ASYNC periodic_averaging { outer { type: 'SGD' lr: 1 momentum: 0 buffer: 2 } }",
      "mode: SSP slack: 1",
      "mode: SSP slack: 4",
      "mode: SSP dynamic_slack { least: 1 most: 6 }",
      "mode: SSP slack: 4 staleness_learning_rate: true",
      "mode: SSP slack: 4 staleness_exponent: 0.5",
      "mode: SSP slack: 4 delay_compensation { }",
      "mode: SSP slack: 4 look_ahead: true",
      "mode: SSP slack: 2 elastic_averaging { }",
      "mode: ASYNC",
      "mode: ASYNC staleness_learning_rate: true",
      "mode: ASYNC staleness_exponent: 0.5",
      "mode: ASYNC delay_compensation { }",
      "mode: ASYNC look_ahead: true",
  };
  for (const std::string policy : kPolicies) {
    CAPTURE(policy);
    const Ended one = train_under(policy, 5);
    const Ended again = train_under(policy, 5);
    CHECK(one.metrics.size() >= 3);
    CHECK(!one.outcome.job.parameters_sha256().empty());
    CHECK(again.outcome.job.parameters_sha256() == one.outcome.job.parameters_sha256());
    CHECK(again.outcome.job.SerializeAsString() == one.outcome.job.SerializeAsString());
    CHECK(again.outcome.virtual_s == one.outcome.virtual_s);
    CHECK(again.outcome.events == one.outcome.events);
    CHECK(again.metrics == one.metrics);
    CHECK(train_under(policy, 6).outcome.virtual_s != one.outcome.virtual_s);
  }
}

}  // namespace taut::lab
