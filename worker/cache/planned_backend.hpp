#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/backend/wrapped_backend.hpp"
#include "worker/cache/arena.hpp"
#include "worker/cache/cycle_trace.hpp"
#include "worker/cache/plan_runner.hpp"

namespace taut {

/// A backend that keeps to a budget of device memory. What it allocates are addresses without memory;
/// one arena within the budget holds what the calls of the moment need, and the rest lies on the
/// host.
///
/// The calls of a cycle (begin_cycle) are planned: a rehearsal, or else the first time, tells which
/// there are, and from then on copies run beside the compute. Any other call brings what it needs,
/// and takes back what it wrote: slow, and always right.
/// Errors    DeviceError, besides the wrapped backend's: a call that needs more than the budget at
///           once, with its largest buffer; a cycle whose calls are not those that were planned
/// Thread    one at a time
class PlannedBackend final : public WrappedBackend {
 public:
  struct Options {
    Bytes budget;
    bool poison = false;  // tests: memory that is given up is overwritten
  };

  /// inner  outlives this
  PlannedBackend(Backend& inner, const Options& options);

  std::string description() const override;
  DeviceBuffer allocate(Bytes size, std::string_view what) override;
  using WrappedBackend::allocate;
  void begin_cycle(Stream& compute, std::string_view name) override;
  void end_cycle() override;
  void on_call(Stream& stream, DeviceCall call) override;

  bool repeats() const override { return repeats_; }
  /// Always true: what is replayed are parts of it, between two moves of memory.
  bool begin_repeat(Stream&, std::uint64_t key, Clock clock) override;
  void end_repeat(Stream&) override;
  void abandon_repeat(Stream&) noexcept override;

  Result<void> rehearse(Stream& compute, std::string_view name,
                        const std::function<Result<void>()>& calls) override;
  bool is_rehearsing() const override { return mode_ == Mode::kRehearsing; }
  bool needs_rehearsal() const override { return true; }

  /// The plan of a cycle; null where there is none yet.
  [[nodiscard]] const PlanRunner* cycle(std::string_view name) const;

  /// Bytes of the arena, at most the budget.
  [[nodiscard]] Bytes arena_bytes() const { return arena_.size(); }
  [[nodiscard]] Bytes budget() const { return budget_; }
  /// Bytes of all that was allocated: what would be needed without a budget.
  [[nodiscard]] Bytes needed_bytes() const { return needed_; }

 private:
  enum class Mode : std::uint8_t { kOutside, kRehearsing, kLearning, kRunning };

  [[nodiscard]] CycleStep step_of(Stream& stream, const DeviceCall& call) const;
  [[nodiscard]] Result<void> plan_cycle();
  void run_planned(Stream& stream, const DeviceCall& call, const CycleStep& step);
  [[noreturn]] void refuse(const DeviceCall& call) const;
  bool copy_host_values(Stream& stream, const DeviceCall& call);
  void look_at(Stream& stream, const DeviceCall& call);
  void run_alone(Stream& stream, const DeviceCall& call);
  [[nodiscard]] std::map<std::size_t, Bytes> place_alone(const DeviceCall& call) const;
  void empty_arena(Stream& stream);

  const Bytes budget_;
  const bool repeats_;  // the wrapped backend does
  Arena arena_;
  PlanRunner::Movers movers_;
  std::vector<VirtualBuffer> buffers_;
  Bytes needed_{0};
  std::map<std::string, std::unique_ptr<PlanRunner>, std::less<>> cycles_;
  PlanRunner* loaded_ = nullptr;  // whose values are in the arena
  Mode mode_ = Mode::kOutside;
  Stream* compute_ = nullptr;  // of the cycle that goes on
  std::string learning_;       // its name, while it is learnt
  std::vector<CycleStep> learnt_;
};

}  // namespace taut
