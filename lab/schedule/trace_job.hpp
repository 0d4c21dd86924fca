#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace taut::schedule {

/// A job of a trace, numbered from 0 in the order of submission.
using JobIndex = std::uint32_t;
inline constexpr JobIndex kNoJob = 0xffffffffU;

/// What an iteration uses, one stage after the other.
enum class Stage : std::uint8_t { kInput, kDevice, kNetwork };
inline constexpr std::size_t kStages = 3;
/// Seconds of an iteration in each stage.
using StageSeconds = std::array<double, kStages>;

/// Equal parts of a device, the finest that a job can request.
using Parts = std::uint64_t;
inline constexpr std::uint32_t kPartsOfDevice = 1000;

class PlannedModel;

/// What the trace says about a job.
struct Job {
  std::string name;
  std::string net;        // as the trace names it; empty if it names none
  std::size_t model = 0;  // of models(); with `planned` a number beyond those
  /// Its throughput from `tautline lab plan`; nullptr: by the model's formula.
  std::shared_ptr<const PlannedModel> planned{};
  double submit_s = 0;   // from the start of the trace
  double service_s = 0;  // run time on `workers` devices of the fastest type of the table or the
                         // plan, on as few hosts as they fit on
  std::uint32_t workers = 1;      // devices that it requests
  std::uint32_t min_workers = 1;  // the fewest that elastic policies give
  std::uint32_t max_workers = 1;  // the most that they give
  double share = 1;               // that it needs of its only device; greater than 0
  double memory_gib = 0;          // that it takes of each of its devices; 0: unknown
  double iteration_s = 0;         // with `workers`
  StageSeconds stage_s{};         // of that iteration

  /// The parts of each of its devices. A job of several devices has them whole.
  [[nodiscard]] std::uint32_t parts() const {
    if (workers > 1) return kPartsOfDevice;
    const double parts = share * kPartsOfDevice + 0.5;
    return parts < 1 ? 1 : static_cast<std::uint32_t>(parts);
  }
  /// The parts of all of its devices.
  [[nodiscard]] Parts all_parts() const { return Parts{workers} * parts(); }
  /// As all_parts(), in devices.
  [[nodiscard]] double devices() const { return static_cast<double>(all_parts()) / kPartsOfDevice; }
};

}  // namespace taut::schedule
