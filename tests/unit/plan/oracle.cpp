#include "tests/unit/plan/oracle.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace taut::test {
namespace {

enum State : std::uint8_t { kAbsent, kClean, kDirty };
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

class Oracle {
 public:
  Oracle(const AccessTrace& trace, std::uint64_t budget) : trace_(trace), budget_(budget) {
    for (std::size_t i = 0; i < trace.buffers.size(); ++i) states_ *= 3;
  }

  std::uint64_t solve() const {
    std::uint64_t best = kNever;
    for (std::size_t start = 0; start < states_; ++start) {
      std::vector<std::uint64_t> cost(states_, kNever);
      cost[start] = 0;
      for (std::size_t step = 0; step < trace_.steps.size(); ++step) cost = advance(cost, step);
      best = std::min(best, cost[start]);
    }
    return best;
  }

 private:
  [[nodiscard]] std::optional<AccessMode> use(std::size_t step, std::size_t buffer) const {
    for (const Access& access : trace_.steps[step].accesses) {
      if (access.buffer == buffer) return access.mode;
    }
    return std::nullopt;
  }

  /// Whether what a buffer holds just before a step may still be read: by a step, or by whoever
  /// requests the last iteration's result until this one overwrites it.
  [[nodiscard]] bool needed(std::size_t step, std::size_t buffer) const {
    const Lifetime lifetime = trace_.buffers[buffer].lifetime;
    if (lifetime == Lifetime::kStep) return false;
    for (std::size_t next = step; next < trace_.steps.size(); ++next) {
      const auto mode = use(next, buffer);
      if (!mode) continue;
      if (*mode != AccessMode::kWrite) return true;
      return lifetime == Lifetime::kForever && !used_before(step, buffer);
    }
    return lifetime == Lifetime::kForever;
  }

  [[nodiscard]] bool used_before(std::size_t step, std::size_t buffer) const {
    for (std::size_t before = 0; before < step; ++before) {
      if (use(before, buffer)) return true;
    }
    return false;
  }

  std::vector<std::uint64_t> advance(const std::vector<std::uint64_t>& cost,
                                     std::size_t step) const {
    std::vector<std::uint64_t> next(states_, kNever);
    const std::size_t subsets = std::size_t{1} << trace_.buffers.size();
    for (std::size_t state = 0; state < states_; ++state) {
      if (cost[state] == kNever) continue;
      for (std::size_t evicted = 0; evicted < subsets; ++evicted) {
        move(cost[state], state, evicted, step, next);
      }
    }
    return next;
  }

  void move(std::uint64_t cost, std::size_t state, std::size_t evicted, std::size_t step,
            std::vector<std::uint64_t>& next) const {
    std::uint64_t present = 0;
    std::size_t after = 0;
    std::size_t digit = 1;
    for (std::size_t buffer = 0; buffer < trace_.buffers.size(); ++buffer, digit *= 3, state /= 3) {
      auto now = static_cast<State>(state % 3);
      const std::uint64_t bytes = trace_.buffers[buffer].bytes.value();
      const bool evict = ((evicted >> buffer) & 1U) != 0;
      if (evict && now == kAbsent) return;
      if (evict && now == kDirty && needed(step, buffer)) cost += bytes;
      if (evict) now = kAbsent;
      if (const auto mode = use(step, buffer)) {
        const bool reads = *mode != AccessMode::kWrite;
        const bool has_value = trace_.buffers[buffer].lifetime != Lifetime::kStep;
        if (now == kAbsent && reads && has_value) cost += bytes;
        if (now == kAbsent) now = kClean;
        if (*mode != AccessMode::kRead) now = kDirty;
      }
      if (now != kAbsent) present += bytes;
      after += digit * now;
    }
    if (present <= budget_) next[after] = std::min(next[after], cost);
  }

  const AccessTrace& trace_;
  std::uint64_t budget_;
  std::size_t states_ = 1;
};

}  // namespace

std::uint64_t fewest_bytes_moved(const AccessTrace& trace, std::uint64_t budget) {
  return Oracle(trace, budget).solve();
}

}  // namespace taut::test
