#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/time.hpp"
#include "lab/contract/checker.hpp"
#include "lab/losses/take_overs.hpp"
#include "lab/run_plan.hpp"

namespace taut::sim {

/// The outcome of a run.
struct Outcome {
  bool done = false;   // the job reached its end
  bool ended = false;  // it ended, well or not
  std::string state;
  std::string message;
  TimePoint took;
  Duration trained{0};  // from the first worker's start to the last one's end
  std::uint64_t messages = 0;
  std::uint64_t reads = 0;
  std::uint64_t captured = 0;        // slices of checkpoints
  std::uint64_t checkpoints = 0;     // that were whole at the end
  std::int64_t last_checkpoint = 0;  // the newest one's clock
  bool is_saved = false;             // when it was stopped
  std::uint64_t hash = 0;            // of everything that happened
  std::uint64_t values_hash = 0;     // of the values of all reads and of the final values, by place
  std::uint32_t members = 0;         // that ever took part
  std::int64_t widest = 0;           // the most clocks that a read was ahead of the slowest member
  TakeOvers::Counts take_overs;
  std::optional<Broken> broken;
};

/// Runs a whole cluster in one thread and virtual time: the daemons' state machines over a faulty
/// network. Checks what happens against the contract.
/// trace  called with every event that the checker reads; may be empty
[[nodiscard]] Outcome run(const Plan& plan, std::function<void(const Event&)> trace = {});

}  // namespace taut::sim
