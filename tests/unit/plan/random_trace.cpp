#include "tests/unit/plan/random_trace.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <string>

namespace taut::test {

AccessTrace random_trace(std::uint64_t seed, const TraceSize& size) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  AccessTrace trace;
  for (std::size_t i = 0; i < size.buffers; ++i) {
    PlanBuffer buffer;
    buffer.name = "b" + std::to_string(i);
    buffer.bytes = Bytes(1 + below(size.largest));
    buffer.kind = static_cast<BufferKind>(below(kBufferKinds));
    const std::uint64_t dice = below(8);
    buffer.lifetime = dice < 4   ? Lifetime::kForever
                      : dice < 7 ? Lifetime::kIteration
                                 : Lifetime::kStep;
    trace.buffers.push_back(buffer);
  }
  std::vector<bool> written(size.buffers, false);
  for (std::size_t step = 0; step < size.steps; ++step) {
    TraceStep one;
    one.name = "s" + std::to_string(step);
    std::set<std::size_t> used;
    for (std::size_t i = below(size.accesses_per_step + 1); i > 0; --i) {
      const std::size_t buffer = below(size.buffers);
      if (!used.insert(buffer).second) continue;
      auto mode = static_cast<AccessMode>(below(4) % 3);
      const bool needs_write = trace.buffers[buffer].lifetime == Lifetime::kIteration;
      if (needs_write && !written[buffer]) mode = AccessMode::kWrite;
      written[buffer] = true;
      one.accesses.push_back({buffer, mode});
    }
    trace.steps.push_back(one);
  }
  return trace;
}

std::uint64_t min_budget(const AccessTrace& trace, std::uint64_t alignment) {
  std::uint64_t most = 0;
  for (const TraceStep& step : trace.steps) {
    std::set<std::size_t> used;
    std::uint64_t bytes = 0;
    for (const Access& access : step.accesses) {
      if (!used.insert(access.buffer).second) continue;
      const std::uint64_t size = trace.buffers[access.buffer].bytes.value();
      bytes += (size + alignment - 1) / alignment * alignment;
    }
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace taut::test
