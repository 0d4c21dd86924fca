#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/engine/device_memory.hpp"
#include "worker/engine/plan/access.hpp"

namespace taut {

[[nodiscard]] const char* to_string(BufferKind kind);

/// How long a buffer's value is needed.
enum class Lifetime : std::uint8_t {
  // Until the next iteration overwrites it; before the first one it is in host memory: parameters.
  kForever,
  kIteration,  // until its last use in the iteration: gradients, activations
  kStep,       // within one step: workspace, and values that each user recomputes
};

struct PlanBuffer {
  std::string name;
  Bytes bytes;
  BufferKind kind = BufferKind::kActivation;
  Lifetime lifetime = Lifetime::kIteration;
};

/// How one iteration uses device memory; every iteration does the same.
struct AccessTrace {
  std::vector<PlanBuffer> buffers;
  std::vector<TraceStep> steps;
};

struct PlanOptions {
  Bytes budget;               // of device memory, for all buffers together
  Bytes alignment{256};       // of every offset; a power of two
  std::size_t lookahead = 1;  // steps of compute that a copy may overlap; 0: move fewest bytes
};

/// A stay of one buffer in the arena. Step numbers continue beyond the end of the iteration: step
/// N + 2 is step 2 of the next one.
struct Residency {
  std::size_t buffer = 0;
  Bytes offset;               // in the arena
  std::size_t begin = 0;      // it owns the memory from the start of this step, below N
  std::size_t first_use = 0;  // begin < first_use: the fetch overlaps the steps between
  std::size_t last_use = 0;
  std::size_t end = 0;            // one past its last step; at most begin + N
  bool fetched = false;           // copied from the host: issued at begin, awaited at first_use
  bool written_back = false;      // copied to the host: issued after `written`, awaited before end
  std::size_t written = 0;        // the last step that wrote the value
  bool holds_across_end = false;  // its value is needed in the next iteration: load at the start
};

/// What to do around one step; indices into MemoryPlan::residencies.
struct StepPlan {
  std::vector<std::size_t> fetches;      // issue before the step, after the last step's waits
  std::vector<std::size_t> needs;        // fetches that must be complete before it computes
  std::vector<std::size_t> write_backs;  // issue when it has computed
  std::vector<std::size_t> releases;     // free after it; their write-backs must be complete
};

/// The place of every buffer at every step of the iteration, and the copies in between. At the end
/// of the iteration the arena is as at its start.
struct MemoryPlan {
  std::vector<Residency> residencies;
  std::vector<StepPlan> steps;
  std::vector<bool> permanent;     // by buffer: it never leaves the device
  Bytes arena_bytes;               // the highest address in use
  Bytes peak_bytes;                // maximum bytes live at one step
  Bytes fetched_bytes;             // host to device, each iteration
  Bytes written_back_bytes;        // device to host, each iteration
  std::size_t hidden_copies = 0;   // copies that overlap a step: double buffering
  std::size_t exposed_copies = 0;  // copies that the compute waits for: single buffering
  Bytes packing_bytes;             // moved because no free address range was large enough

  [[nodiscard]] Bytes moved_bytes() const {
    return Bytes(fetched_bytes.value() + written_back_bytes.value());
  }
};

/// Decides which buffers stay in device memory. Pure: the same trace and options give the same
/// plan.
/// Errors    invalid: an inconsistent trace; a step whose buffers exceed the budget, with
///           its largest tensor, the bytes required and the bytes available
/// Source    Belady, "A study of replacement algorithms for a virtual-storage computer", IBM
///           Systems Journal 5(2), 1966; Cui et al., "GeePS", EuroSys 2016, section 4.4
[[nodiscard]] Result<MemoryPlan> plan_memory(const AccessTrace& trace, const PlanOptions& options);

/// Bytes that any schedule within the budget must move in each iteration, however it splits and
/// places buffers.
/// Errors    as plan_memory
[[nodiscard]] Result<Bytes> transfer_lower_bound(const AccessTrace& trace,
                                                 const PlanOptions& options);

/// Bytes of all the trace's buffers, each in its own place: no plan needs more.
[[nodiscard]] Bytes total_bytes(const AccessTrace& trace);

}  // namespace taut
