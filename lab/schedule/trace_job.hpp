#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace taut::schedule {

/// A job of a trace, numbered from 0 in the order of submission.
using JobIndex = std::uint32_t;
inline constexpr JobIndex kNoJob = 0xffffffffU;

/// What an iteration uses, one after the other.
enum class Stage : std::uint8_t { kInput, kDevice, kNetwork };
inline constexpr std::size_t kStages = 3;
/// Seconds of an iteration in each stage.
using StageSeconds = std::array<double, kStages>;

/// What is known of a job from the trace.
struct Job {
  std::string name;
  std::size_t model = 0;  // of models()
  double submit_s = 0;    // from the start of the trace
  double service_s = 0;   // it runs for so long with `workers` devices of the fastest type of the
                          // table, on as few hosts as they fit on
  std::uint32_t workers = 1;      // devices that it asks for
  std::uint32_t min_workers = 1;  // elastic policies give from so many
  std::uint32_t max_workers = 1;  // to so many
  double share = 1;               // of each device: what it needs of it, greater than 0
  double iteration_s = 0;         // with `workers`
  StageSeconds stage_s{};         // of that iteration
};

}  // namespace taut::schedule
