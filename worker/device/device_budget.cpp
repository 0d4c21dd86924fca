#include "worker/device/device_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "common/check.hpp"

namespace taut::worker {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / kMiB;
}

/// Bytes in the arena at each step.
std::vector<std::uint64_t> live_bytes(const AccessTrace& trace, const MemoryPlan& plan) {
  std::vector<std::uint64_t> live(trace.steps.size(), 0);
  for (const Residency& at : plan.residencies) {
    for (std::size_t step = at.begin; step < at.end; ++step) {
      live[step % live.size()] += trace.buffers[at.buffer].bytes.value();
    }
  }
  return live;
}

std::uint64_t bytes_of(const AccessTrace& trace, const MemoryPlan& plan,
                       const std::vector<std::size_t>& residencies) {
  std::uint64_t sum = 0;
  for (const std::size_t number : residencies) {
    sum += trace.buffers[plan.residencies[number].buffer].bytes.value();
  }
  return sum;
}

}  // namespace

BudgetedBackend::BudgetedBackend(Backend& device, Bytes budget) : device_(device) {
  if (budget.value() == 0) return;
  planned_ = std::make_unique<PlannedBackend>(device, PlannedBackend::Options{.budget = budget});
}

std::string BudgetedBackend::summary() const {
  const PlanRunner* const cycle = planned_ ? planned_->cycle("training") : nullptr;
  if (cycle == nullptr) return {};
  const MemoryPlan& plan = cycle->plan();
  return fmt::format(
      "device memory: {:.1f} MiB of a budget of {:.1f} MiB hold what needs {:.1f} MiB; each "
      "iteration moves {:.1f} MiB to the device and {:.1f} MiB back, {} copies in parallel with "
      "the compute "
      "and {} that it waits for",
      mib(plan.arena_bytes.value()), mib(planned_->budget().value()),
      mib(total_bytes(cycle->trace()).value()), mib(plan.fetched_bytes.value()),
      mib(plan.written_back_bytes.value()), plan.hidden_copies, plan.exposed_copies);
}

std::string BudgetedBackend::table() const {
  const PlanRunner* const cycle = planned_ ? planned_->cycle("training") : nullptr;
  TAUT_CHECK(cycle != nullptr, "a table of a missing plan");
  const AccessTrace& trace = cycle->trace();
  const MemoryPlan& plan = cycle->plan();
  const std::vector<std::uint64_t> live = live_bytes(trace, plan);
  constexpr int kBar = 24;
  std::string text = fmt::format("{:>5}  {:>9}  {:<{}}  {:>9}  {:>9}  {}\n", "step", "MiB here", "",
                                 kBar, "MiB in", "MiB out", "what");
  for (std::size_t step = 0; step < trace.steps.size(); ++step) {
    const auto filled = static_cast<int>(live[step] * kBar / planned_->budget().value());
    fmt::format_to(std::back_inserter(text), "{:>5}  {:>9.2f}  {:<{}}  {:>9.2f}  {:>9.2f}  {}\n",
                   step, mib(live[step]), std::string(static_cast<std::size_t>(filled), '#'), kBar,
                   mib(bytes_of(trace, plan, plan.steps[step].fetches)),
                   mib(bytes_of(trace, plan, plan.steps[step].write_backs)),
                   trace.steps[step].name);
  }
  std::array<std::uint64_t, kBufferKinds> by_kind{};
  std::array<std::uint64_t, kBufferKinds> stays{};
  for (std::size_t i = 0; i < trace.buffers.size(); ++i) {
    const auto kind = static_cast<std::size_t>(trace.buffers[i].kind);
    by_kind[kind] += trace.buffers[i].bytes.value();
    if (plan.permanent[i]) stays[kind] += trace.buffers[i].bytes.value();
  }
  for (std::size_t kind = 0; kind < by_kind.size(); ++kind) {
    if (by_kind[kind] == 0) continue;
    fmt::format_to(std::back_inserter(text), "{:<11} {:>9.2f} MiB, of which {:.2f} never leave\n",
                   to_string(static_cast<BufferKind>(kind)), mib(by_kind[kind]), mib(stays[kind]));
  }
  fmt::format_to(std::back_inserter(text), "most at once {:.2f} MiB\n",
                 mib(plan.peak_bytes.value()));
  return text + summary() + "\n";
}

}  // namespace taut::worker
