#include "tests/bench/data_plane/turns.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "tests/bench/data_plane/bench_cluster.hpp"
#include "tests/bench/data_plane/raw_pair.hpp"
#include "tests/bench/data_plane/roles.hpp"

namespace taut::bench {
namespace {

class Turns {
 public:
  Turns(const Options& options, std::string cluster, nlohmann::json& report)
      : options_(options), cluster_(std::move(cluster)), report_(report) {}

  Result<Medians> run() {
    for (round_ = 0; round_ < options_.rounds; ++round_) {
      for (const std::uint64_t bytes : options_.sizes) {
        TAUT_TRY(measure_raw(bytes));
        for (const Variant& variant : variants_of(options_)) {
          TAUT_TRY(measure_variant(variant, bytes));
        }
      }
    }
    return std::move(medians_);
  }

 private:
  /// A process for each turn, as the servers have.
  Result<void> measure_raw(std::uint64_t bytes) {
    const auto log = options_.folder / "raw.log";
    for (const RawWay& way : kRawWays) {
      std::error_code ignored;
      std::filesystem::remove(log, ignored);
      TAUT_TRY(auto echo, start_role({"--raw-server"}, log));
      TAUT_TRY(const std::string address, first_line(log));
      const auto samples = raw_zmq(address, echo.pid(), bytes, options_.seconds, way);
      echo.kill();
      std::map<std::string, std::vector<Sample>> patterns;
      for (const Sample& sample : samples) patterns[sample.pattern] = {sample};
      keep(way.name, nullptr, bytes, patterns);
    }
    return ok();
  }

  Result<void> measure_variant(const Variant& variant, std::uint64_t bytes) {
    const int servers = cluster_[0] - '0';
    const int workers = cluster_[2] - '0';
    TAUT_TRY(auto cluster, BenchCluster::start(options_, variant, servers));
    for (int i = 0; i < workers; ++i) {
      TAUT_TRY(cluster.add_worker(bytes));
    }
    TAUT_TRY(cluster.await_joined());
    TAUT_TRY(cluster.run_job(pb::Consistency::ASYNC));
    std::map<std::string, std::vector<Sample>> patterns;
    for (int i = 0; i < workers; ++i) {
      TAUT_TRY(const auto samples, cluster.samples_of(static_cast<std::size_t>(i)));
      for (const Sample& sample : samples) patterns[sample.pattern].push_back(sample);
    }
    cluster.stop();
    keep(variant.name(), &variant, bytes, patterns);
    return ok();
  }

  /// variant  nullptr for a plain program
  void keep(const std::string& way, const Variant* variant, std::uint64_t bytes,
            const std::map<std::string, std::vector<Sample>>& patterns) {
    fmt::print("  {:>8}  {}:", size_name(bytes), way);
    for (const auto& [pattern, samples] : patterns) {
      const Total total = total_of(samples);
      medians_.add(way, bytes, pattern, total);
      if (total.median_us > 0) {
        fmt::print("  {} {:.0f} us", pattern, total.median_us);
      } else {
        fmt::print("  {} {:.2f} GB/s", pattern, total.rate);
      }
      for (const Sample& sample : samples) add_row(way, variant, sample);
    }
    fmt::print("\n");
  }

  void add_row(const std::string& way, const Variant* variant, const Sample& sample) {
    nlohmann::json row = to_json(sample);
    row["what"] = variant == nullptr ? way : "tautline";
    row["cluster"] = cluster_;
    row["round"] = round_;
    if (variant != nullptr) {
      row["transport"] = variant->transport;
      row["security"] = variant->security;
      row["io_threads"] = variant->io_threads;
      row["shards"] = variant->shards;
    }
    report_["rows"].push_back(std::move(row));
  }

  const Options& options_;
  const std::string cluster_;
  nlohmann::json& report_;
  Medians medians_;
  int round_ = 0;
};

void print_way(const Medians& medians, const std::string& way, std::uint64_t bytes,
               const Variant* variant, double memory_model) {
  fmt::print("  {:>8}  {}\n", size_name(bytes), way);
  for (const std::string pattern : kPatterns) {
    const Total total = medians.of(way, bytes, pattern);
    if (total.rate <= 0) continue;
    fmt::print("            {:<9}  {:6.2f} GB/s  {:.2f} CPU s/GB", pattern, total.rate,
               total.cpu_s_a_gigabyte);
    if (variant != nullptr && pattern != "pull") {
      fmt::print("  {:.2f} x raw adding's push",
                 medians.ratio(way, bytes, pattern, kRawAdding.name, "push"));
      fmt::print("  {:.2f} x raw's {}", medians.ratio(way, bytes, pattern, kRawMany.name, pattern),
                 pattern);
    }
    if (variant != nullptr && pattern == "push" && variant->transport == "shared") {
      fmt::print("  {:.0f} % of memory", 100 * total.rate / memory_model);
    }
    fmt::print("\n");
  }
  const double trip = medians.of(way, bytes, "round trip").median_us;
  if (trip <= 0) return;
  const double raw = medians.of(kRawMany.name, bytes, "round trip").median_us;
  fmt::print("            round trip {:.0f} us, {:.2f} x raw ZeroMQ\n", trip,
             raw > 0 ? trip / raw : 0);
}

}  // namespace

Result<Medians> measure_in_turns(const Options& options, const std::string& cluster,
                                 nlohmann::json& report) {
  return Turns(options, cluster, report).run();
}

void print_medians(const Options& options, const Medians& medians, double memory_model) {
  fmt::print("medians of {} round{}\n", options.rounds, options.rounds == 1 ? "" : "s");
  for (const std::uint64_t bytes : options.sizes) {
    for (const RawWay& way : kRawWays) print_way(medians, way.name, bytes, nullptr, memory_model);
    for (const Variant& variant : variants_of(options)) {
      print_way(medians, variant.name(), bytes, &variant, memory_model);
    }
  }
}

}  // namespace taut::bench
