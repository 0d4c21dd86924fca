#include "proto/config/experiment_check.hpp"

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

Result<void> check_job_text(const std::string& text) {
  pb::Job job;
  REQUIRE(parse_text(text, "job", job).has_value());
  return check_experiment(job);
}

std::string refusal_of(const std::string& text) {
  const auto checked = check_job_text(text);
  CAPTURE(text);
  REQUIRE_FALSE(checked.has_value());
  return checked.error().message;
}

}  // namespace

TEST_CASE("an experiment's numbers must be in their ranges", "[experiment]") {
  CHECK(check_job_text("").has_value());
  CHECK(check_job_text("workers: 2 straggler { worker: 1 slowdown: 3 rate: 0.5 "
                       "burst { period: 10 length: 10 } rotate: 3 } clock_time_ms: 40 "
                       "network { delay_ms: 1 jitter_ms: 2 loss: 0.1 }")
            .has_value());
  CHECK_THAT(refusal_of("straggler { } straggler { slowdown: 0.5 }"),
             Contains("straggler[1].slowdown is 0.5") && Contains("between 1 and"));
  CHECK_THAT(refusal_of("straggler { slowdown: nan }"), Contains("nan"));
  CHECK_THAT(refusal_of("straggler { delay_ms: -1 }"), Contains("straggler[0].delay_ms is -1"));
  CHECK_THAT(refusal_of("straggler { rate: 1.5 }"), Contains("rate is 1.5"));
  CHECK_THAT(refusal_of("clock_time_ms: inf"), Contains("clock_time_ms is inf"));
  CHECK_THAT(refusal_of("network { loss: 1 }"), Contains("network.loss is 1"));
  CHECK_THAT(refusal_of("network { delay_ms: 1e9 }"), Contains("network.delay_ms"));
  CHECK_THAT(refusal_of("network { jitter_ms: -2 }"), Contains("network.jitter_ms is -2"));
}

TEST_CASE("training with backup workers waits for no follower", "[experiment]") {
  CHECK(check_job_text("followers { slack: 2 lease_s: 5 }").has_value());
  CHECK_THAT(refusal_of("followers { slack: 2 } consistency { backup_workers: 1 }"),
             Contains("followers: training with backup_workers"));
}

TEST_CASE("a burst must fit its period", "[experiment]") {
  CHECK_THAT(refusal_of("straggler { burst { } }"), Contains("burst lasts 0 of 0 clocks"));
  CHECK_THAT(refusal_of("straggler { burst { length: 3 } }"), Contains("3 of 0"));
  CHECK_THAT(refusal_of("straggler { burst { period: 5 length: 6 } }"), Contains("6 of 5"));
  CHECK_THAT(refusal_of("straggler { burst { period: 5 length: 2 offset: 5 } }"),
             Contains("offset 5, beyond"));
  CHECK_THAT(refusal_of("straggler { burst { period: 5 length: 2 offset: 1 random: true } }"),
             Contains("give one"));
}

TEST_CASE("a straggler must be a worker that the job has", "[experiment]") {
  CHECK_THAT(refusal_of("workers: 4 straggler { worker: 4 }"),
             Contains("straggler[0] names worker 4; the job has 4"));
  CHECK(check_job_text("straggler { worker: 4 }").has_value());
}

TEST_CASE("a worker's own config names no workers", "[experiment]") {
  const auto refused = [](const std::string& text) {
    pb::WorkerConfig worker;
    REQUIRE(parse_text(text, "worker", worker).has_value());
    const auto checked = check_experiment(worker, "f: worker.");
    REQUIRE_FALSE(checked.has_value());
    return checked.error().message;
  };
  CHECK_THAT(refused("straggler { worker: 0 }"), Contains("f: worker.straggler[0] names worker 0"));
  CHECK_THAT(refused("straggler { rotate: 2 }"), Contains("names rotate"));
  CHECK_THAT(refused("clock_time_ms: -1"), Contains("f: worker.clock_time_ms is -1"));
}

}  // namespace taut
