#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/engine/backend.hpp"
#include "worker/engine/plan/arena.hpp"
#include "worker/engine/plan/cycle_trace.hpp"

namespace taut {

/// Runs a cycle's calls in the arena by its memory plan: fetches and write-backs run on separate
/// streams, and the compute waits for events of single buffers.
/// Thread    one at a time
class PlanRunner {
 public:
  /// Streams for copies, shared by the cycles of an arena.
  struct Movers {
    std::unique_ptr<Stream> in;
    std::unique_ptr<Stream> out;
  };

  /// Errors    as plan_memory
  [[nodiscard]] static Result<std::unique_ptr<PlanRunner>> make(
      std::string name, std::vector<TraceStep> steps, const std::vector<VirtualBuffer>& buffers,
      Arena& arena, Movers& movers);

  /// Copies the values that the start of a cycle needs to the device. REQUIRES: the arena is empty.
  void load(Stream& compute);
  /// Copies the values that outlive the cycle to the host, and empties the arena. Waits.
  void unload(Stream& compute);

  void begin() { step_ = 0; }
  /// Whether this is the cycle's next call.
  [[nodiscard]] bool expects(const TraceStep& step) const {
    return step_ < steps_.size() && steps_[step_] == step;
  }
  /// Runs the next call. REQUIRES: it is expected.
  void run(Stream& compute, Stream& stream, const DeviceCall& call);
  [[nodiscard]] bool is_over() const { return step_ == steps_.size(); }

  /// As Backend's, for the cycle's calls: the backend records those between two moves of memory,
  /// and replays them. The caller makes its calls in any case.
  void begin_repeat(std::uint64_t key, Clock clock) { repeat_ = {key, clock}; }
  void end_repeat(Stream& compute);
  void abandon_repeat(Stream& compute) noexcept;

  /// The address of a buffer's newest value on the device; nullptr if the host has it, once the
  /// streams have passed.
  [[nodiscard]] std::byte* newest(std::size_t buffer) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const MemoryPlan& plan() const { return plan_; }
  [[nodiscard]] const AccessTrace& trace() const { return cycle_.trace; }
  /// The next call, for messages.
  [[nodiscard]] std::string expected() const;

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  struct Stay {
    Residency at;
    std::byte* address = nullptr;
    std::unique_ptr<Event> fetched;       // nullptr: never fetched
    std::unique_ptr<Event> written_back;  // nullptr: never written back
    std::unique_ptr<Event> copied;        // by a call on another stream; nullptr: none pending
  };

  struct Repeat {
    std::uint64_t key = 0;
    Clock clock;
  };
  /// Calls that the backend records, or has replayed at the first of them.
  enum class Segment : std::uint8_t { kNone, kQueued, kReplayed };

  PlanRunner(std::string name, std::vector<TraceStep> steps, Arena& arena, Movers& movers);
  void lay_out();
  void find_moves();
  void begin_segment(Stream& compute);
  void end_segment(Stream& compute);
  [[nodiscard]] Bytes bytes_of(const Stay& stay) const;
  [[nodiscard]] std::size_t host_buffer_of(const Stay& stay) const;
  [[nodiscard]] bool outlives(const Stay& stay) const;
  void fetch(Stream& compute, std::size_t number);
  void write_back(Stream& compute, std::size_t number);
  void release(Stream& compute, std::size_t number);
  void note_use(std::size_t number, AccessMode mode);

  const std::string name_;
  const std::vector<TraceStep> steps_;
  CycleTrace cycle_;
  MemoryPlan plan_;
  Arena& arena_;
  Movers& movers_;
  std::vector<Stay> stays_;                         // as in the plan's residencies
  std::vector<std::vector<std::size_t>> stays_of_;  // by step, for each of its uses
  std::vector<std::size_t> newest_;                 // by the trace's buffers: the stay, or kNowhere
  std::vector<bool> moves_before_, moves_after_;    // by step: not part of a recording
  std::unique_ptr<Event> mark_;
  std::size_t step_ = 0;
  const std::uint64_t number_;  // identifies this runner in the process
  std::optional<Repeat> repeat_;
  Segment segment_ = Segment::kNone;
};

}  // namespace taut
