#include <algorithm>

#include "lab/training/records/playback.hpp"
#include "lab/training/training_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

TrainingOutcome train(Playback* playback) {
  TrainingOptions options = tiny_training("solver_param { base_lr: 0.1 max_iter: 300 }",
                                          "compute { clock_ms: 5 spread: LOGNORMAL deviation: 0.5 }"
                                          "outage { host: \"w1\" at_s: 0.1 back_s: 0.1 }"
                                          "control { heartbeat_limit_s: 0.5 }");
  options.playback = playback;
  return run_to_end(options);
}

}  // namespace

TEST_CASE("a training has the same bits and times whether it is recorded or not", "[lab]") {
  const TrainingOutcome alone = train(nullptr);
  Playback playback;
  const TrainingOutcome recorded = train(&playback);
  CHECK(recorded.job.state() == pb::DONE);
  CHECK(!recorded.job.parameters_sha256().empty());
  CHECK(recorded.job.SerializeAsString() == alone.job.SerializeAsString());
  CHECK(recorded.virtual_s == alone.virtual_s);
  CHECK(recorded.events == alone.events);
  // It has recorded something: a host that was lost too.
  const TimePoint end(from_seconds(recorded.virtual_s));
  const std::size_t bins = playback.bins(end);
  REQUIRE(bins > 100);
  const auto clocks = playback.clocks(bins);
  std::size_t members = 0;
  std::int32_t lead = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    std::vector<std::int32_t> here;
    for (const auto& row : clocks) {
      if (row[bin] != TimeBins::kNone) here.push_back(row[bin]);
    }
    if (here.empty()) continue;
    members += here.size();
    const auto [least, most] = std::ranges::minmax(here);
    lead = std::max(lead, most - least);
  }
  // The bound is reached, and never passed.
  CHECK(lead == 2);
  CHECK(members < 3 * bins);
  for (const auto& row : clocks) CHECK(row.back() == 300);
  double computed_us = 0;
  for (const double us : playback.spent_us(1, Playback::State::kComputing)) computed_us += us;
  CHECK(computed_us > 300 * 2'000);
  double finished = 0;
  for (const double clocks : playback.finished()) finished += clocks;
  CHECK(finished >= 3 * 300 - 50);
}

}  // namespace taut::lab
