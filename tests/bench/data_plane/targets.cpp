#include "tests/bench/data_plane/targets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

bool is_met(const Target& target, double found) {
  if (target.figure == Figure::kCpu) return found > 0 && found <= target.limit;
  return found >= target.limit;
}

std::string text_of(const Target& target) {
  switch (target.figure) {
    case Figure::kOfAddedPush:
      return fmt::format("at least {:.2f} x", target.limit);
    case Figure::kRate:
      return fmt::format("at least {:.2f} GB/s", target.limit);
    case Figure::kCpu:
      return fmt::format("at most {:.2f} CPU s/GB", target.limit);
  }
  return "";
}

/// One pattern of a variant at a size.
struct Row {
  std::uint64_t bytes = 0;
  std::string pattern;
  Total total;
  double of_added_push = 0;
  double of_first = 0;  // of the first variant of the same transport and security

  [[nodiscard]] double figure(Figure of) const {
    if (of == Figure::kOfAddedPush) return of_added_push;
    return of == Figure::kRate ? total.rate : total.cpu_s_a_gigabyte;
  }
};

class Table {
 public:
  Table(const Options& options, std::string cluster, const Medians& medians)
      : options_(options), cluster_(std::move(cluster)), medians_(medians) {}

  /// Returns how many targets are missed.
  int print() {
    fmt::print(
        "\n| size | Tautline {} | pattern | GB/s | plain, depth 10 | and adding "
        "| x adding's push | x the first way | CPU s/GB | adding's | target | verdict |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        cluster_);
    for (const std::uint64_t bytes : options_.sizes) {
      for (const Variant& variant : variants_of(options_)) {
        for (const char* pattern : kPatterns) {
          print_row(variant, row_of(variant, bytes, pattern));
        }
      }
    }
    return missed_;
  }

 private:
  /// Whether a variant is what targets are for.
  [[nodiscard]] bool has_targets(const Variant& variant) const {
    return cluster_ == "1x1" && variant.transport == "tcp" &&
           variant.io_threads == options_.io_threads.front() &&
           variant.shards == options_.shards.front();
  }

  [[nodiscard]] Row row_of(const Variant& variant, std::uint64_t bytes,
                           const std::string& pattern) const {
    const Variant first{variant.transport, variant.security, options_.io_threads.front(),
                        options_.shards.front()};
    return {bytes, pattern, medians_.of(variant.name(), bytes, pattern),
            medians_.ratio(variant.name(), bytes, pattern, kRawAdding.name, "push"),
            medians_.ratio(variant.name(), bytes, pattern, first.name(), pattern)};
  }

  /// A pattern that failed has a rate of 0, and misses.
  void print_row(const Variant& variant, const Row& row) {
    std::vector<std::string> required;
    std::vector<std::string> verdicts;
    for (const Target& target : kTargets) {
      if (!has_targets(variant) || target.security != variant.security ||
          target.bytes != row.bytes || target.pattern != row.pattern) {
        continue;
      }
      const bool met = is_met(target, row.figure(target.figure));
      required.push_back(text_of(target));
      verdicts.emplace_back(met ? "met" : "MISSED");
      missed_ += met ? 0 : 1;
    }
    const auto plain = [&](const RawWay& way) {
      return medians_.of(way.name, row.bytes, row.pattern);
    };
    // There is no plain pull.
    const auto text = [](double figure) {
      return figure > 0 ? fmt::format("{:.2f}", figure) : std::string();
    };
    const auto adding = plain(kRawAdding);
    fmt::print("| {} | {} | {} | {:.2f} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {} | {} | {} |\n",
               size_name(row.bytes), variant.name(), row.pattern, row.total.rate,
               text(plain(kRawTen).rate), text(adding.rate), row.of_added_push, row.of_first,
               row.total.cpu_s_a_gigabyte, text(adding.cpu_s_a_gigabyte), fmt::join(required, "; "),
               fmt::join(verdicts, "; "));
  }

  const Options& options_;
  const std::string cluster_;
  const Medians& medians_;
  int missed_ = 0;
};

/// Connections that carry this many GB/s, each to a shard: the busier thread of a connection and
/// its shard is busy all the time.
int connections_for(double rate, double busiest) {
  return static_cast<int>(std::ceil(rate * busiest));
}

void print_ends(const Options& options, const Medians& medians) {
  fmt::print(
      "\nWhat a push takes at each end in CPU s/GB, in the threads that send and receive and in "
      "the rest; GB/s that a connection and its shard then carry if cores are free, and how many "
      "of them links need:\n\n"
      "| size | Tautline | worker, I/O | the rest | server, I/O | the rest | GB/s | 25 Gbit/s | "
      "100 Gbit/s |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const std::uint64_t bytes : options.sizes) {
    for (const Variant& variant : variants_of(options)) {
      if (variant.transport != "tcp") continue;
      const Total push = medians.of(variant.name(), bytes, "push");
      // The rest of a worker is its own thread, whatever the number of shards.
      const double busiest = std::max({push.worker_io, push.server_io, push.server_rest});
      if (busiest <= 0) continue;
      fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.1f} | {} | {} |\n",
                 size_name(bytes), variant.name(), push.worker_io, push.worker_rest, push.server_io,
                 push.server_rest, 1 / busiest, connections_for(25 / 8.0, busiest),
                 connections_for(100 / 8.0, busiest));
    }
  }
}

}  // namespace

int print_table(const Options& options, const std::string& cluster, const Medians& medians) {
  const int missed = Table(options, cluster, medians).print();
  if (std::ranges::find(options.transports, "tcp") != options.transports.end()) {
    print_ends(options, medians);
  }
  return missed;
}

}  // namespace taut::bench
