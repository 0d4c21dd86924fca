// What the CUDA device moves and updates in a second, beside plain copies of the same sizes in the same
// run. Writes its rows with --json FILE; exits with 77 where there is no device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "worker/backend/backend.hpp"

namespace {

using namespace taut;

constexpr int kNoDevice = 77;
constexpr std::size_t kFloats = (256UL << 20U) / sizeof(float);
constexpr std::size_t kSlice = (1UL << 20U) / sizeof(float);

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

class Bench {
 public:
  explicit Bench(Backend& backend)
      : backend_(backend),
        stream_(backend.make_stream()),
        host_(backend.allocate_host(Bytes(kFloats * sizeof(float)))) {
    for (DeviceBuffer& buffer : memory_) {
      buffer = backend.allocate_floats(kFloats);
      backend.fill(*stream_, buffer.as<float>(), 0.5F);
    }
    std::ranges::fill(host_.as<float>(), 0.25F);
  }

  std::vector<Row> run() {
    host_copies();
    const double copy =
        2 * gigabytes(1) / time_of(*stream_, [&] { backend_.copy(*stream_, at(0), at(1)); });
    rows_.push_back({"copy on the device, 256 MiB, read and written", copy, 0, 0});
    slices(copy);
    update("update: SGD", math::RuleKind::kSgd, 0, copy);
    update("update: momentum", math::RuleKind::kMomentum, 1, copy);
    update("update: Adam", math::RuleKind::kAdam, 2, copy);
    return rows_;
  }

 private:
  static double gigabytes(double arrays) {
    return arrays * static_cast<double>(kFloats * sizeof(float)) * 1e-9;
  }
  [[nodiscard]] DeviceSpan<float> at(std::size_t index) const { return memory_[index].as<float>(); }

  /// Whole, and in the slices that a mover copies.
  void host_copies() {
    const auto host = host_.as<float>();
    const auto in_slices = [&](bool to_device) {
      for (std::size_t begin = 0; begin < kFloats; begin += kSlice) {
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
    rows_.push_back({"pinned host to device, 256 MiB", gigabytes(1) / up, 0, 0});
    rows_.push_back({"device to pinned host, 256 MiB", gigabytes(1) / down, 0, 0});
    rows_.push_back(
        {"the same up in slices of 1 MiB", gigabytes(1) / up_slices, up / up_slices, 0.85});
    rows_.push_back(
        {"the same down in slices of 1 MiB", gigabytes(1) / down_slices, down / down_slices, 0.85});
  }

  /// Half of a table of rows: gathered out of every other column block, and put back.
  void slices(double copy) {
    constexpr std::int64_t kRows = 1024;
    constexpr auto kWidth = static_cast<std::int64_t>(kFloats / 1024);
    const PartCopy gather{.from = {kRows, kWidth},
                          .to = {kRows, kWidth / 2},
                          .axis = 1,
                          .from_offset = kWidth / 4,
                          .to_offset = 0,
                          .length = kWidth / 2};
    const PartCopy scatter{.from = gather.to,
                           .to = gather.from,
                           .axis = 1,
                           .from_offset = 0,
                           .to_offset = kWidth / 4,
                           .length = kWidth / 2};
    const auto half = at(1).subspan(0, kFloats / 2);
    const double out =
        time_of(*stream_, [&] { backend_.copy_part(*stream_, gather, at(0), half); });
    const double in =
        time_of(*stream_, [&] { backend_.copy_part(*stream_, scatter, half, at(0)); });
    rows_.push_back({"gather of slices, 128 MiB read and written", gigabytes(1) / out,
                     gigabytes(1) / out / copy, 0.85});
    rows_.push_back({"scatter of slices, 128 MiB read and written", gigabytes(1) / in,
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
    rows_.push_back({what + ", tables of 256 MiB", rate, rate / copy, 0.85});
  }

  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  HostBuffer host_;
  DeviceBuffer memory_[4];
  std::vector<Row> rows_;
};

void write_json(const std::string& file, const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json one{{"what", row.what}};
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
  std::string json;
  CLI::App app("Copies and updates on a CUDA device, beside plain copies.");
  app.add_option("--json", json, "write the rows into this file");
  CLI11_PARSE(app, count, arguments);
  try {
    const auto choice = make_backend({.device = DeviceKind::kCuda});
    if (!choice) {
      fmt::print("skipped: {}\n", choice.error().message);
      return kNoDevice;
    }
    fmt::print("{}\n", choice.value().reason);
    const std::vector<Row> rows = Bench(*choice.value().backend).run();
    for (const Row& row : rows) {
      fmt::print("{:48} {:8.1f} GB/s{}\n", row.what, row.rate,
                 row.share > 0 ? fmt::format("  {:.0f} %", 100 * row.share) : "");
    }
    if (!json.empty()) write_json(json, rows);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
  return 0;
}
