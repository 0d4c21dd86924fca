#include "cli/playback/played_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/playback/playback_json.hpp"
#include "common/files/file.hpp"

namespace taut::cli {
namespace {

using Json = nlohmann::json;

constexpr Bytes kMaxFile{1ULL << 30U};

/// What is wrong with a file, thrown from deep inside to parse_played_run().
struct Mistake {
  std::string what;
};

template <class Number>
std::vector<Number> row_of(const Json& host, const char* name, std::size_t bins) {
  auto row = host.at(name).get<std::vector<Number>>();
  if (!row.empty() && row.size() != bins) {
    throw Mistake{fmt::format("\"{}\" has {} entries, there are {} bins", name, row.size(), bins)};
  }
  return row;
}

std::optional<double> number_or_nothing(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

PlayedRun::Figures figures_of(const Json& whole, const char* name, std::size_t bins) {
  PlayedRun::Figures figures;
  for (const Json& value : whole.at(name)) figures.push_back(number_or_nothing(value));
  if (!figures.empty() && figures.size() != bins) {
    throw Mistake{
        fmt::format("\"{}\" has {} entries, there are {} bins", name, figures.size(), bins)};
  }
  return figures;
}

/// Adds when a host was away, as shares of the bins.
void add_loss(PlayedRun& run, const Json& loss) {
  const auto host =
      std::ranges::find(run.hosts, loss.at("host").get<std::string>(), &PlayedRun::Host::name);
  if (host == run.hosts.end()) return;
  const double from = loss.at("at_s").get<double>();
  const double to = number_or_nothing(loss.at("back_s")).value_or(run.virtual_s);
  PlayedRun::Shares& row = host->shares[PlayedRun::kAway];
  row.resize(run.bins);
  for (std::size_t i = 0; i < run.bins; ++i) {
    const double begin = run.bin_s * static_cast<double>(i);
    const double away = std::min(to, run.end_s(i)) - std::max(from, begin);
    if (away <= 0) continue;
    row[i] = std::min<std::int32_t>(
        1000,
        row[i] + static_cast<std::int32_t>(std::lround(1000 * away / (run.end_s(i) - begin))));
  }
}

void add_hosts(PlayedRun& run, const Json& whole) {
  for (const Json& host : whole.at("hosts")) {
    PlayedRun::Host& one = run.hosts.emplace_back();
    one.name = host.at("name").get<std::string>();
    one.workers = host.at("workers").size();
    for (std::size_t state = 0; state < PlayedRun::kAway; ++state) {
      one.shares[state] = row_of<std::int32_t>(host, PlayedRun::kStateNames[state], run.bins);
    }
  }
  if (run.hosts.empty()) throw Mistake{"it has no host"};
  for (const Json& loss : whole.at("hosts_lost")) add_loss(run, loss);
  for (const Json& worker : whole.at("workers")) {
    PlayedRun::Worker& one = run.workers.emplace_back();
    one.name = worker.at("name").get<std::string>();
    one.host = worker.at("host").get<std::size_t>();
    one.clock = row_of<std::int32_t>(worker, "clock", run.bins);
    one.clock.resize(run.bins, -1);
    if (one.host >= run.hosts.size()) throw Mistake{"a worker is on no host"};
  }
}

PlayedRun run_of(const Json& whole) {
  PlayedRun run;
  if (const int format = whole.at("format").get<int>(); format != kPlaybackFormat) {
    throw Mistake{fmt::format("format {}, this version reads {}; run the lab again", format,
                              kPlaybackFormat)};
  }
  run.job = whole.at("job").get<std::string>();
  run.mode = whole.at("mode").get<std::string>();
  if (const Json& slack = whole.at("slack"); !slack.is_null()) {
    run.slack = slack.get<std::int64_t>();
  }
  run.virtual_s = whole.at("virtual_s").get<double>();
  run.bin_s = whole.at("bin_s").get<double>();
  run.bins = whole.at("bins").get<std::size_t>();
  constexpr std::size_t kMaxBins = 1U << 20U;
  const double covered_s = run.bin_s * static_cast<double>(run.bins);
  if (!(run.bin_s > 0) || !(run.virtual_s > 0) || run.bins > kMaxBins ||
      run.virtual_s > covered_s * (1 + 1e-9) || run.virtual_s < covered_s - run.bin_s) {
    throw Mistake{fmt::format("{} bins of {:g} s cannot be those of {:g} s", run.bins, run.bin_s,
                              run.virtual_s)};
  }
  run.iterations_per_s = figures_of(whole, "iterations_per_s", run.bins);
  run.loss = figures_of(whole, "loss", run.bins);
  run.staleness = figures_of(whole, "staleness", run.bins);
  // Files of an earlier build lack it.
  if (whole.contains("bound")) run.bound = figures_of(whole, "bound", run.bins);
  for (const Json& test : whole.at("tests")) {
    run.tests.push_back({.at_s = test.at("at_s").get<double>(),
                         .iteration = test.at("iteration").get<std::int64_t>(),
                         .accuracy = number_or_nothing(test.at("accuracy")),
                         .loss = number_or_nothing(test.at("loss"))});
  }
  add_hosts(run, whole);
  for (const Json& link : whole.at("links")) {
    run.links.push_back({.name = link.at("name").get<std::string>(),
                         .gbit_per_s = link.at("gbit_per_s").get<double>(),
                         .busy_share = link.at("busy_share").get<double>(),
                         .load = row_of<std::int32_t>(link, "load", run.bins)});
  }
  return run;
}

}  // namespace

double PlayedRun::end_s(std::size_t bin) const {
  return bin + 1 == bins ? virtual_s : bin_s * static_cast<double>(bin + 1);
}

std::optional<double> PlayedRun::bound_at(std::size_t bin) const {
  if (!bound.empty() && bound[bin]) return bound[bin];
  return slack ? std::optional(static_cast<double>(*slack)) : std::nullopt;
}

Result<PlayedRun> parse_played_run(std::string text, const std::string& name) {
  const Json whole = Json::parse(text, nullptr, false);
  if (!whole.is_object()) return invalid(fmt::format("{}: is not a complete JSON object", name));
  try {
    PlayedRun run = run_of(whole);
    run.text = std::move(text);
    return run;
  } catch (const Mistake& mistake) {
    return invalid(fmt::format("{}: {}", name, mistake.what));
  } catch (const Json::exception& mistake) {
    return invalid(fmt::format("{}: is not a playback of a lab run: {}", name, mistake.what()));
  }
}

Result<PlayedRun> read_played_run(const std::filesystem::path& file) {
  TAUT_TRY(std::string text, read_file(file, kMaxFile));
  return parse_played_run(std::move(text), file.string());
}

}  // namespace taut::cli
