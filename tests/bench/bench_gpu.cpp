// What the CUDA device moves, updates and encodes in a second, compared with plain copies of the
// same sizes in the same run, and what the host's memory moves. Writes its rows with --json FILE;
// exits with 77 where there is no device. --limits measures only what a model of a training is
// computed from.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/math/codec.hpp"
#include "common/time.hpp"
#include "worker/engine/backend.hpp"

namespace {

using namespace taut;

constexpr int kNoDevice = 77;
constexpr std::size_t kMiB = 1UL << 20U;
constexpr std::size_t kSlice = kMiB / sizeof(float);

struct Options {
  std::string json;
  DeviceKind device = DeviceKind::kCuda;
  std::size_t mib = 256;  // of each array
  int host_threads = 4;   // that move the host's memory, as a server's shards do
  bool only_limits = false;
  bool dry_run = false;
};

struct Row {
  std::string what;
  double rate = 0;   // GB/s
  double share = 0;  // of what it is compared with; 0: with nothing
  double reach = 0;
};

/// The median of `repetitions` runs in seconds, each of `times` calls that are waited for together.
double time_of(Stream& stream, const std::function<void()>& call, int times = 5,
               int repetitions = 7) {
  call();
  stream.finish();
  std::vector<double> taken;
  for (int i = 0; i < repetitions; ++i) {
    const TimePoint begin = steady_now();
    for (int k = 0; k < times; ++k) call();
    stream.finish();
    taken.push_back(seconds(steady_now() - begin) / times);
  }
  std::ranges::sort(taken);
  return taken[taken.size() / 2];
}

/// Bytes per second, in GB/s, that threads read and write with a = b + 2 c over their own parts.
double triad_rate(std::size_t floats, int threads) {
  const std::size_t part = std::max<std::size_t>(floats / static_cast<std::size_t>(threads), 1);
  std::vector<std::vector<float>> arrays(3 * static_cast<std::size_t>(threads));
  const auto on_all = [&](const std::function<void(std::size_t)>& work) {
    std::vector<std::thread> running;
    for (std::size_t i = 0; i < arrays.size(); i += 3) running.emplace_back(work, i);
    for (std::thread& one : running) one.join();
  };
  // Each thread touches its own memory first, so that it is near the thread.
  on_all([&](std::size_t i) {
    for (std::size_t k = i; k < i + 3; ++k) arrays[k].assign(part, static_cast<float>(k));
  });
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const TimePoint begin = steady_now();
    on_all([&](std::size_t i) {
      float* const to = arrays[i].data();
      const float* const one = arrays[i + 1].data();
      const float* const two = arrays[i + 2].data();
      for (std::size_t k = 0; k < part; ++k) to[k] = one[k] + 2 * two[k];
    });
    const double bytes = static_cast<double>(arrays.size() * part * sizeof(float));
    best = std::max(best, bytes * 1e-9 / seconds(steady_now() - begin));
  }
  return best;
}

class Bench {
 public:
  Bench(Backend& backend, const Options& options)
      : backend_(backend),
        options_(options),
        floats_(options.mib * kSlice),
        stream_(backend.make_stream()),
        host_(backend.allocate_host(Bytes(floats_ * sizeof(float)))) {
    for (DeviceBuffer& buffer : memory_) {
      buffer = backend.allocate_floats(floats_);
      backend.fill(*stream_, buffer.as<float>(), 0.5F);
    }
    std::ranges::fill(host_.as<float>(), 0.25F);
  }

  std::vector<Row> run() {
    host_copies();
    rows_.push_back({fmt::format("memory of the host, {} threads, a triad", options_.host_threads),
                     triad_rate(floats_, options_.host_threads), 0, 0});
    if (options_.only_limits) return rows_;
    const double copy =
        2 * gigabytes(1) / time_of(*stream_, [&] { backend_.copy(*stream_, at(0), at(1)); });
    rows_.push_back({"copy on the device, " + size() + ", read and written", copy, 0, 0});
    slices(copy);
    update("update: SGD", math::RuleKind::kSgd, 0, copy);
    update("update: momentum", math::RuleKind::kMomentum, 1, copy);
    update("update: Adam", math::RuleKind::kAdam, 2, copy);
    encodings();
    return rows_;
  }

 private:
  [[nodiscard]] double gigabytes(double arrays) const {
    return arrays * static_cast<double>(floats_ * sizeof(float)) * 1e-9;
  }
  [[nodiscard]] std::string size(std::size_t share = 1) const {
    return fmt::format("{} MiB", options_.mib / share);
  }
  [[nodiscard]] DeviceSpan<float> at(std::size_t index) const { return memory_[index].as<float>(); }

  /// Whole, and in the slices that a mover copies.
  void host_copies() {
    const auto host = host_.as<float>();
    const auto in_slices = [&](bool to_device) {
      for (std::size_t begin = 0; begin < floats_; begin += kSlice) {
        const auto part = at(0).subspan(begin, kSlice);
        if (to_device) {
          backend_.copy_to_device(*stream_, host.subspan(begin, kSlice), part);
        } else {
          backend_.copy_to_host(*stream_, part, host.subspan(begin, kSlice));
        }
      }
    };
    const double up = time_of(*stream_, [&] { backend_.copy_to_device(*stream_, host, at(0)); });
    const double down = time_of(*stream_, [&] { backend_.copy_to_host(*stream_, at(0), host); });
    const double up_slices = time_of(*stream_, [&] { in_slices(true); });
    const double down_slices = time_of(*stream_, [&] { in_slices(false); });
    rows_.push_back({"pinned host to device, " + size(), gigabytes(1) / up, 0, 0});
    rows_.push_back({"device to pinned host, " + size(), gigabytes(1) / down, 0, 0});
    rows_.push_back(
        {"the same up in slices of 1 MiB", gigabytes(1) / up_slices, up / up_slices, 0.85});
    rows_.push_back(
        {"the same down in slices of 1 MiB", gigabytes(1) / down_slices, down / down_slices, 0.85});
  }

  /// Half of a table of rows: gathered out of every other column block, and put back.
  void slices(double copy) {
    constexpr std::int64_t kRows = 1024;
    const auto width = static_cast<std::int64_t>(floats_) / kRows;
    const PartCopy gather{.from = {kRows, width},
                          .to = {kRows, width / 2},
                          .axis = 1,
                          .from_offset = width / 4,
                          .to_offset = 0,
                          .length = width / 2};
    const PartCopy scatter{.from = gather.to,
                           .to = gather.from,
                           .axis = 1,
                           .from_offset = 0,
                           .to_offset = width / 4,
                           .length = width / 2};
    const auto half = at(1).subspan(0, floats_ / 2);
    const double out =
        time_of(*stream_, [&] { backend_.copy_part(*stream_, gather, at(0), half); });
    const double in =
        time_of(*stream_, [&] { backend_.copy_part(*stream_, scatter, half, at(0)); });
    rows_.push_back({"gather of slices, " + size(2) + " read and written", gigabytes(1) / out,
                     gigabytes(1) / out / copy, 0.85});
    rows_.push_back({"scatter of slices, " + size(2) + " read and written", gigabytes(1) / in,
                     gigabytes(1) / in / copy, 0.85});
  }

  void update(const std::string& what, math::RuleKind kind, std::size_t states, double copy) {
    DeviceUpdate update{.kind = kind, .step = {}, .scale = 1};
    update.step.rate = 1e-6F;
    update.step.momentum = 0.9F;
    update.step.momentum2 = 0.99F;
    update.step.delta = 1e-8F;
    const DeviceGradient gradient{at(0), 1};
    std::vector<DeviceSpan<float>> state;
    for (std::size_t i = 0; i < states; ++i) state.push_back(at(2 + i));
    const double took = time_of(*stream_, [&] {
      backend_.apply_update(*stream_, update, std::span(&gradient, 1), at(1), state);
    });
    // Gradient read; values and states read and written.
    const double rate = gigabytes(static_cast<double>(3 + 2 * states)) / took;
    rows_.push_back({what + ", tables of " + size(), rate, rate / copy, 0.85});
  }

  /// Gradients by the slice, next to the copy to the host of as many that encoding spares.
  void encodings() {
    using math::Codec;
    constexpr std::uint32_t kColumns = 1024;
    const std::vector<math::Encoding> all{
        {Codec::kFloat16},
        {Codec::kBfloat16},
        {Codec::kInt8},
        {Codec::kOneBit},
        {Codec::kTopK, 100},
        {Codec::kRandomK, 100},
        {.codec = Codec::kLowRank, .rank = 2, .columns = kColumns},
        {.codec = Codec::kLowRank, .rank = 4, .columns = kColumns}};
    const auto host = host_.as<float>().first(kSlice);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.01F);
    for (float& value : host) value = normal(random);
    const auto gradient = at(0).subspan(0, kSlice);
    backend_.copy_to_device(*stream_, host, gradient);
    const auto by_slices = [&](const std::function<void()>& work) {
      return time_of(*stream_, [&] {
        for (std::size_t i = 0; i < options_.mib; ++i) work();
      });
    };
    const double copy = by_slices([&] { backend_.copy_to_host(*stream_, gradient, host); });
    for (const math::Encoding& encoding : all) {
      const std::size_t bytes = math::encoded_bytes(encoding, kSlice);
      const std::size_t kept = math::state_values(encoding, kSlice);
      const DeviceBuffer out = backend_.allocate_floats((bytes + 3) / sizeof(float));
      const DeviceBuffer state = backend_.allocate_floats(std::max<std::size_t>(kept, 1));
      backend_.fill(*stream_, state.as<float>(), 0);
      const SliceEncoding how{encoding, math::draw_of(1, 2, 3, 4, 5)};
      const double took = by_slices([&] {
        backend_.encode(*stream_, how, gradient, out.as<float>(),
                        state.as<float>().subspan(0, kept));
      });
      rows_.push_back({"encoding as " + math::to_string(encoding) + ", next to the copy",
                       gigabytes(1) / took, copy / took, 0});
    }
  }

  Backend& backend_;
  const Options options_;
  const std::size_t floats_;
  std::unique_ptr<Stream> stream_;
  HostBuffer host_;
  DeviceBuffer memory_[4];
  std::vector<Row> rows_;
};

void write_json(const std::string& file, const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json one{{"what", row.what}, {"gigabytes_per_second", row.rate}};
    one["value"] = row.share > 0 ? fmt::format("{:.1f} GB/s, {:.0f} %", row.rate, 100 * row.share)
                                 : fmt::format("{:.1f} GB/s", row.rate);
    if (row.reach > 0) {
      one["reach"] = fmt::format(">= {:.0f} %", 100 * row.reach);
      one["fine"] = row.share >= row.reach;
    }
    list.push_back(one);
  }
  std::ofstream(file) << list.dump(2) << "\n";
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  CLI::App app("Copies and updates on a CUDA device, compared with plain copies.");
  app.add_option("--json", options.json, "write the rows into this file");
  const std::map<std::string, DeviceKind> devices{{"cpu", DeviceKind::kCpu},
                                                  {"cuda", DeviceKind::kCuda}};
  app.add_option("--device", options.device, "cuda, or cpu for a dry run")
      ->transform(CLI::CheckedTransformer(devices));
  app.add_option("--mib", options.mib, "of each array")->check(CLI::Range(1, 1 << 16));
  app.add_option("--host-threads", options.host_threads, "that move the host's memory")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--dry-run", options.dry_run, "arrays of 1 MiB, and no speed is judged");
  app.add_flag("--limits", options.only_limits, "only copies with the host, and its memory");
  CLI11_PARSE(app, count, arguments);
  if (options.dry_run) options.mib = 1;
  try {
    const auto choice = make_backend({.device = options.device});
    if (!choice) {
      fmt::print("skipped: {}\n", choice.error().message);
      return kNoDevice;
    }
    fmt::print("{}\n", choice.value().reason);
    std::vector<Row> rows = Bench(*choice.value().backend, options).run();
    for (Row& row : rows) {
      if (options.dry_run) row.reach = 0;
    }
    for (const Row& row : rows) {
      fmt::print("{:66} {:8.1f} GB/s{}\n", row.what, row.rate,
                 row.share > 0 ? fmt::format("  {:.0f} %", 100 * row.share) : "");
    }
    if (!options.json.empty()) write_json(options.json, rows);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
  return 0;
}
