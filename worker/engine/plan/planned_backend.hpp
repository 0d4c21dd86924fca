#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/engine/plan/arena.hpp"
#include "worker/engine/plan/cycle_trace.hpp"
#include "worker/engine/plan/plan_runner.hpp"
#include "worker/engine/plan/wrapped_backend.hpp"

namespace taut {

/// A backend that stays within a budget of device memory. It allocates addresses without memory;
/// one arena within the budget holds what the current calls need, and the rest is on the host.
///
/// The calls of a cycle (begin_cycle) are planned: a dry run, or else the first cycle, records
/// them, and from then on copies run in parallel with the compute. Any other call fetches its
/// operands and writes its results back, which is slow but always correct.
/// Errors    DeviceError, in addition to the wrapped backend's: a call that needs more than the
///           budget at once, with its largest buffer; a cycle whose calls differ from the planned
///           ones
/// Thread    one at a time
class PlannedBackend final : public WrappedBackend {
 public:
  struct Options {
    Bytes budget;
    bool poison = false;  // tests: released memory is overwritten
  };

  /// inner  outlives this
  PlannedBackend(Backend& inner, const Options& options);

  std::string description() const override;
  void set_math(const MathOptions& options) override;
  DeviceBuffer allocate(Bytes size, BufferKind kind, std::string_view name) override;
  using WrappedBackend::allocate;
  /// Always false: residuals would take a part of the budget at each step.
  bool encodes() const override { return false; }
  void begin_cycle(Stream& compute, std::string_view name) override;
  void end_cycle() override;
  void on_call(Stream& stream, DeviceCall call) override;

  bool repeats() const override { return repeats_; }
  /// Always true: only the parts between two moves of memory are replayed.
  bool begin_repeat(Stream&, std::uint64_t key, Clock clock) override;
  void end_repeat(Stream&) override;
  void abandon_repeat(Stream&) noexcept override;

  Result<void> dry_run(Stream& compute, std::string_view name,
                       const std::function<Result<void>()>& calls) override;
  bool in_dry_run() const override { return mode_ == Mode::kDryRun; }
  bool needs_dry_run() const override { return true; }

  /// The plan of a cycle; nullptr if it has none yet.
  [[nodiscard]] const PlanRunner* cycle(std::string_view name) const;

  /// Bytes of the arena, at most the budget.
  [[nodiscard]] Bytes arena_bytes() const { return arena_.size(); }
  [[nodiscard]] Bytes budget() const { return budget_; }
  /// Bytes of all allocations: the memory needed without a budget.
  [[nodiscard]] Bytes needed_bytes() const { return needed_; }

 private:
  enum class Mode : std::uint8_t { kOutside, kDryRun, kLearning, kRunning };

  [[nodiscard]] TraceStep step_of(Stream& stream, const DeviceCall& call) const;
  [[nodiscard]] Result<void> plan_cycle();
  void run_planned(Stream& stream, const DeviceCall& call, const TraceStep& step);
  [[noreturn]] void refuse(const DeviceCall& call) const;
  bool copy_host_values(Stream& stream, const DeviceCall& call);
  void look_at(Stream& stream, const DeviceCall& call);
  void run_alone(Stream& stream, const DeviceCall& call);
  [[nodiscard]] std::map<std::size_t, Bytes> place_alone(const DeviceCall& call) const;
  void empty_arena(Stream& stream);

  const Bytes budget_;
  const bool repeats_;  // as the wrapped backend's
  Arena arena_;
  PlanRunner::Movers movers_;
  std::vector<VirtualBuffer> buffers_;
  Bytes needed_{0};
  std::map<std::string, std::unique_ptr<PlanRunner>, std::less<>> cycles_;
  PlanRunner* loaded_ = nullptr;  // the cycle that has its values in the arena
  Mode mode_ = Mode::kOutside;
  Stream* compute_ = nullptr;  // of the current cycle
  std::string learning_;       // the current cycle's name in kLearning
  std::vector<TraceStep> learnt_;
};

}  // namespace taut
