#include "tests/bench/data_plane/targets.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/bench/data_plane/raw_pair.hpp"

namespace taut::bench {
namespace {

enum class Figure { kOfAddedPush, kRate, kCpu };

struct Target {
  const char* security = "";
  std::uint64_t bytes = 0;
  const char* pattern = "";
  Figure figure = Figure::kRate;
  double limit = 0;
};

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr Target kTargets[] = {
    {"token", kMiB, "push", Figure::kOfAddedPush, 1.0},
    {"token", 4 * kMiB, "push", Figure::kOfAddedPush, 1.0},
    {"token", kMiB, "push+pull", Figure::kOfAddedPush, 0.60},
    {"token", 4 * kMiB, "push+pull", Figure::kOfAddedPush, 0.80},
    {"token", kMiB, "push", Figure::kCpu, 0.35},
    {"token", 4 * kMiB, "push", Figure::kCpu, 0.35},
    // Five times what ps-lite moves of such messages on a machine of two cores: 0.2.
    {"token", 4096, "push", Figure::kRate, 1.0},
    // What encryption may take of both ends together.
    {"curve", kMiB / 16, "push", Figure::kCpu, 2.5},
    {"curve", kMiB / 16, "pull", Figure::kCpu, 2.5},
    {"curve", kMiB, "push", Figure::kCpu, 2.5},
    {"curve", kMiB, "pull", Figure::kCpu, 2.5},
    {"curve", 4 * kMiB, "push", Figure::kCpu, 2.5},
    {"curve", 4 * kMiB, "pull", Figure::kCpu, 2.5},
};

double measured(const Medians& medians, const std::string& way, const Target& target) {
  const Total total = medians.of(way, target.bytes, target.pattern);
  switch (target.figure) {
    case Figure::kOfAddedPush:
      return medians.ratio(way, target.bytes, target.pattern, kRawAdding.name, "push");
    case Figure::kRate:
      return total.rate;
    case Figure::kCpu:
      return total.cpu_s_a_gigabyte;
  }
  return 0;
}

const char* unit_of(Figure figure) {
  if (figure == Figure::kOfAddedPush) return "x the push of raw ZeroMQ, depth 10, adding";
  return figure == Figure::kRate ? "GB/s" : "CPU s/GB";
}

}  // namespace

int print_targets(const Options& options, const Medians& medians) {
  int missed = 0;
  for (const Target& target : kTargets) {
    // A pattern that failed has a rate of 0, and misses.
    const bool was_measured =
        std::ranges::find(options.sizes, target.bytes) != options.sizes.end() &&
        std::ranges::find(options.transports, "tcp") != options.transports.end() &&
        std::ranges::find(options.security, target.security) != options.security.end();
    if (!was_measured) continue;
    const Variant variant{"tcp", target.security, options.io_threads.front()};
    const double found = measured(medians, variant.name(), target);
    const bool is_cpu = target.figure == Figure::kCpu;
    const bool met = is_cpu ? found > 0 && found <= target.limit : found >= target.limit;
    fmt::print("  {}: {} of {}, {}: {:.2f} {}, {} {:.2f} is required\n", met ? "met" : "MISSED",
               target.pattern, size_name(target.bytes), target.security, found,
               unit_of(target.figure), is_cpu ? "at most" : "at least", target.limit);
    missed += met ? 0 : 1;
  }
  return missed;
}

}  // namespace taut::bench
