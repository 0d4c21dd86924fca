// How long a sum over processes of this machine takes: ours over TCP and in shared memory, and
// Gloo's, in turns within one run.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/system/memory.hpp"
#include "common/time.hpp"
#include "tests/bench/allreduce/way.hpp"

namespace taut::bench {
namespace {

struct Options {
  std::uint32_t processes = 2;
  std::vector<double> mib{1, 4, 64};
  std::uint32_t rounds = 15;
  double seconds = 0.15;
  std::vector<std::uint64_t> messages{1UL << 20U};
  std::vector<std::uint64_t> windows{32UL << 20U};
  std::vector<std::string> algorithms{"RING"};
  std::vector<std::string> security{"insecure"};
};

constexpr collective::Algorithm kAll[] = {
    collective::Algorithm::kRing, collective::Algorithm::kHalving,
    collective::Algorithm::kDoubleTree, collective::Algorithm::kHierarchical};

void check_sum(Way& way, std::uint64_t count, std::uint32_t ranks) {
  std::ranges::fill(way.values(count), 1.0F);
  way.sum();
  if (!std::ranges::all_of(way.values(count),
                           [&](float one) { return one == static_cast<float>(ranks); })) {
    throw std::runtime_error(fmt::format("{}: another sum than {}", way.name(), ranks));
  }
  std::ranges::fill(way.values(count), 0.0F);
}

/// Of one sum, in seconds.
struct Taken {
  double time = 0;
  double processor = 0;  // of this process, all threads
};

double processor_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// The mean of `times` sums.
Taken time_sums(Way& way, std::uint64_t times) {
  way.sum();  // all processes start together
  const TimePoint start = steady_now();
  const double used = processor_time();
  for (std::uint64_t i = 0; i < times; ++i) way.sum();
  const auto sums = static_cast<double>(times);
  return {seconds(steady_now() - start) / sums, (processor_time() - used) / sums};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Named by their limits where several of those take turns.
void add_ours(const Options& options, const Place& place, collective::Algorithm algorithm,
              bool shares_memory, bool with_keys, std::vector<std::unique_ptr<Way>>& ways) {
  for (const std::uint64_t message : options.messages) {
    for (const std::uint64_t window : options.windows) {
      std::string limits = with_keys ? ", CURVE" : "";
      if (options.messages.size() > 1)
        limits += fmt::format(", messages of {} KiB", message >> 10U);
      if (options.windows.size() > 1) limits += fmt::format(", window of {} KiB", window >> 10U);
      ways.push_back(our_way(place, algorithm, shares_memory, with_keys, message, window, limits));
    }
  }
}

/// Times all sizes in one process; the first one prints.
void measure(const Options& options, const Place& place) {
  std::vector<std::unique_ptr<Way>> ways;
  for (const std::string& name : options.algorithms) {
    const auto* algorithm = std::ranges::find(kAll, name, collective::to_string);
    if (algorithm == std::end(kAll)) throw std::runtime_error(name + " is not an algorithm");
    for (const bool shares_memory : {false, true}) {
      for (const std::string& security : options.security) {
        add_ours(options, place, *algorithm, shares_memory, security == "curve", ways);
      }
    }
  }
  auto peer = gloo_way(place);
  const bool has_peer = peer != nullptr;
  if (has_peer) {
    ways.push_back(std::move(peer));
  } else if (place.rank == 0) {
    fmt::print("Gloo was not found when this was built (libgloo-dev): there is no peer\n");
  }
  for (const double mib : options.mib) {
    const auto count = static_cast<std::uint64_t>(mib * (1 << 20)) / sizeof(float);
    std::vector<std::uint64_t> times;
    for (auto& way : ways) {
      check_sum(*way, count, place.ranks);
      // As often as all processes agree on: what the slowest has summed is its time's inverse.
      const double one = time_sums(*way, 2).time;
      std::span<float> values = way->values(count);
      values[0] = static_cast<float>(one);
      way->sum();
      const double mean = static_cast<double>(way->values(count)[0]) / place.ranks;
      times.push_back(std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(options.seconds / std::max(mean, 1e-6))));
      way->values(count)[0] = 0;
    }
    std::vector<std::vector<double>> taken(ways.size());
    std::vector<std::vector<double>> processor(ways.size());
    for (std::uint32_t round = 0; round < options.rounds; ++round) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const Taken one = time_sums(*ways[i], times[i]);
        taken[i].push_back(one.time);
        processor[i].push_back(one.processor);
      }
    }
    if (place.rank != 0) continue;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const double one = median(taken[i]);
      // What a ring must move past each process, in both directions, whichever way it is summed.
      const double gigabytes = 2.0 * (place.ranks - 1) / place.ranks * mib * (1 << 20) * 1e-9;
      std::vector<double> faster;  // than the peer in the same round
      for (std::size_t round = 0; round < options.rounds; ++round) {
        faster.push_back(taken.back()[round] / taken[i][round]);
      }
      fmt::print("{}\t{:g}\t{}\t{:.3f}\t{:.3f}\t{:.2f}\t{}\n", place.ranks, mib, ways[i]->name(),
                 one * 1e3, median(processor[i]) * 1e3, gigabytes / one,
                 has_peer ? fmt::format("{:.2f}", median(faster)) : "-");
    }
    std::fflush(stdout);
  }
  // What was sent last is received before sockets close.
  for (auto& way : ways) check_sum(*way, 1, place.ranks);
  write_whole(place.folder / fmt::format("done.{}", place.rank), "");
  for (std::uint32_t rank = 0; rank < place.ranks; ++rank) {
    (void)read_when_written(place.folder / fmt::format("done.{}", rank));
  }
}

int run_child(const Options& options, const Place& place) {
  try {
    measure(options, place);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "process {}: {}\n", place.rank, failure.what());
    return 1;
  }
}

int run(const Options& options) {
  std::string folder = (std::filesystem::temp_directory_path() / "tautline-sums-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    fmt::print(stderr, "no folder can be made in {}\n", folder);
    return 1;
  }
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < options.processes; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(run_child(options, {rank, options.processes, folder}));
    if (child > 0) children.push_back(child);
  }
  int failed = children.size() == options.processes ? 0 : 1;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    wait(&status);
    if (status == 0 || failed != 0) continue;
    failed = 1;
    for (const pid_t child : children) kill(child, SIGTERM);
  }
  std::filesystem::remove_all(folder);
  return failed;
}

}  // namespace
}  // namespace taut::bench

int main(int argc, char** argv) {
  taut::bench::Options options;
  CLI::App app("Times sums over processes of this machine, ours and Gloo's in turns");
  app.add_option("--processes", options.processes, "how many sum")->check(CLI::Range(1, 64));
  app.add_option("--mib", options.mib, "sizes of the values in MiB")->delimiter(',');
  app.add_option("--rounds", options.rounds, "rounds; medians are printed");
  app.add_option("--seconds", options.seconds, "seconds of each way and round");
  app.add_option("--message", options.messages,
                 "maximum bytes of a message of ours; several take turns")
      ->delimiter(',');
  app.add_option("--window", options.windows,
                 "maximum bytes of ours under way to a process; several take turns")
      ->delimiter(',');
  app.add_option("--algorithms", options.algorithms, "RING, HALVING, DOUBLE_TREE, HIERARCHICAL")
      ->delimiter(',');
  app.add_option("--security", options.security,
                 "insecure, curve: ours without keys and with them, in turns; with keys through "
                 "CURVE, as a cluster's workers")
      ->delimiter(',')
      ->check(CLI::IsMember({"insecure", "curve"}));
  CLI11_PARSE(app, argc, argv);
  taut::keep_freed_memory();  // as servers and workers do
  return taut::bench::run(options);
}
