#pragma once

#include <cstdint>
#include <memory>

#include "server/coordinator/store/store.hpp"

namespace taut::sim {

/// What a coordinator's disk does to saves; it outlives the coordinator.
struct DiskFaults {
  enum class Tear : std::uint8_t { kNone, kLost, kKept };
  bool is_full = false;     // nothing is stored
  Tear next = Tear::kNone;  // the next save fails: stored whole, or not at all
};

/// Keeps the state in memory, with faults.
[[nodiscard]] std::unique_ptr<CoordinatorStore> make_faulty_store(
    std::shared_ptr<CoordinatorRecords> records, std::shared_ptr<DiskFaults> faults);

}  // namespace taut::sim
