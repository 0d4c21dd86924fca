#include "cli/playback/playback_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "cli/views/job_text.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

using Json = nlohmann::ordered_json;
using lab::Playback;

/// Writes rows of bins; the last one may be shorter than the others.
class Rows {
 public:
  Rows(const Playback& playback, TimePoint end)
      : count_(playback.bins(end)),
        width_us_(static_cast<double>(playback.bin().count())),
        end_us_(static_cast<double>(end.since_origin().count())) {}

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] double length_us(std::size_t bin) const {
    return std::min(width_us_, end_us_ - width_us_ * static_cast<double>(bin));
  }
  /// A row of microseconds as parts of each bin, if `of` threads may spend time at once.
  [[nodiscard]] Json thousandths(std::span<const double> us, std::size_t of) const {
    Json row = Json::array();
    if (us.empty() || of == 0) return row;
    bool has_some = false;
    for (std::size_t i = 0; i < count_; ++i) {
      const double share = us[i] / (length_us(i) * static_cast<double>(of));
      const auto rounded = std::clamp<std::int64_t>(std::llround(1000 * share), 0, 1000);
      has_some |= rounded > 0;
      row.push_back(rounded);
    }
    return has_some ? row : Json::array();
  }
  /// The mean of what was added in each bin; null if nothing was.
  [[nodiscard]] Json means(std::span<const double> sums, std::span<const double> numbers) const {
    Json row = Json::array();
    for (std::size_t i = 0; i < count_ && !numbers.empty(); ++i) {
      row.push_back(numbers[i] > 0 ? Json(rounded(sums[i] / numbers[i])) : Json());
    }
    return row;
  }
  [[nodiscard]] Json rates(std::span<const double> numbers) const {
    constexpr double kUsPerS = 1e6;
    Json row = Json::array();
    for (std::size_t i = 0; i < count_ && !numbers.empty(); ++i) {
      row.push_back(rounded(numbers[i] * kUsPerS / length_us(i)));
    }
    return row;
  }

 private:
  /// To six digits, more than any figure shows.
  static double rounded(double value) {
    if (value == 0 || !std::isfinite(value)) return 0;
    const double power = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
    return std::round(value * power) / power;
  }

  const std::size_t count_;
  const double width_us_;
  const double end_us_;
};

/// The hosts that have processes.
Json hosts_json(const Playback& playback, const Rows& rows) {
  using State = Playback::State;
  static constexpr std::array<std::pair<State, const char*>, 3> kOfWorkers = {
      {{State::kComputing, "computing"}, {State::kWaiting, "waiting"}, {State::kPaused, "paused"}}};
  Json hosts = Json::array();
  for (std::size_t i = 0; i < playback.hosts().size(); ++i) {
    const Playback::Host& host = playback.hosts()[i];
    if (!host.has_processes()) continue;
    Json one = {{"name", host.name}, {"servers", host.servers}, {"workers", host.workers}};
    for (const auto& [state, name] : kOfWorkers) {
      one[name] = rows.thousandths(playback.spent_us(i, state), host.workers.size());
    }
    one["serving"] = rows.thousandths(playback.spent_us(i, State::kServing),
                                      host.servers.size() * playback.shards());
    hosts.push_back(std::move(one));
  }
  return hosts;
}

/// The links that carried something.
Json links_json(const Playback& playback, const lab::TrainingOutcome& outcome, const Rows& rows) {
  Json links = Json::array();
  for (const lab::LinkUse& use : outcome.links) {
    const Playback::Link& link = playback.links()[use.pipe];
    links.push_back({{"name", link.name},
                     {"gbit_per_s", link.gbit_per_s},
                     {"bytes", use.bytes},
                     {"messages", use.messages},
                     {"busy_share", use.busy_share},
                     {"load", rows.thousandths(playback.busy_us(use.pipe), 1)}});
  }
  return links;
}

Json workers_json(const Playback& playback, const Rows& rows) {
  std::vector<std::size_t> host_of(playback.workers());
  std::size_t number = 0;  // as hosts_json() lists them
  for (const Playback::Host& host : playback.hosts()) {
    for (const std::uint32_t worker : host.workers) host_of[worker] = number;
    if (host.has_processes()) ++number;
  }
  Json workers = Json::array();
  for (const std::vector<std::int32_t>& clocks : playback.clocks(rows.count())) {
    const std::size_t i = workers.size();
    workers.push_back(
        {{"name", "worker" + std::to_string(i)}, {"host", host_of[i]}, {"clock", clocks}});
  }
  return workers;
}

/// The bound if a policy moves it; null: the job's own.
Json bounds_json(const Playback& playback, const Rows& rows) {
  Json bounds = Json::array();
  for (const std::int32_t bound : playback.bounds(rows.count())) {
    bounds.push_back(bound < 0 ? Json() : Json(bound));
  }
  return bounds;
}

Json tests_json(const Playback& playback) {
  Json tests = Json::array();
  for (const Playback::Test& test : playback.tests()) {
    tests.push_back({{"at_s", test.at_s},
                     {"iteration", test.clock.value()},
                     {"accuracy", test.accuracy ? Json(*test.accuracy) : Json()},
                     {"loss", std::isfinite(test.loss) ? Json(test.loss) : Json()}});
  }
  return tests;
}

/// When hosts were away, in virtual time.
Json losses_json(const lab::TrainingOutcome& outcome) {
  Json losses = Json::array();
  for (const lab::HostLoss& loss : outcome.losses) {
    losses.push_back({{"host", loss.host},
                      {"at_s", outcome.submitted_s + loss.at_s},
                      {"back_s", loss.back_s ? Json(outcome.submitted_s + *loss.back_s) : Json()},
                      {"had_notice", loss.had_notice}});
  }
  return losses;
}

}  // namespace

std::string playback_json(const RunSummary& run, const lab::TrainingOutcome& outcome,
                          const Playback& playback, const PlaybackFigures& figures) {
  constexpr double kUsPerS = 1e6;
  const pb::JobStatus& job = run.job;
  const Rows rows(playback, TimePoint(from_seconds(outcome.virtual_s)));
  const Json whole = {{"format", kPlaybackFormat},
                      {"job", job.name()},
                      {"state", state_word(job.state())},
                      {"message", job.message()},
                      {"mode", job.mode()},
                      {"slack", job.mode() == "ASYNC" ? Json() : Json(job.slack())},
                      {"max_iter", job.max_iter()},
                      {"servers", run.servers},
                      {"shards_per_server", run.shards},
                      {"rate", job.rate()},
                      {"rate_unit", rate_unit(job)},
                      {"waiting_share", figures.waiting},
                      {"mean_staleness", figures.mean_staleness},
                      {"parameters_sha256", job.parameters_sha256()},
                      {"virtual_s", outcome.virtual_s},
                      {"submitted_s", outcome.submitted_s},
                      {"bin_s", static_cast<double>(playback.bin().count()) / kUsPerS},
                      {"bins", rows.count()},
                      {"iterations_per_s", rows.rates(playback.finished())},
                      {"loss", rows.means(playback.loss_sums(), playback.losses())},
                      {"staleness", rows.means(playback.staleness_sums(), playback.reads())},
                      {"bound", bounds_json(playback, rows)},
                      {"tests", tests_json(playback)},
                      {"hosts_lost", losses_json(outcome)},
                      {"hosts", hosts_json(playback, rows)},
                      {"workers", workers_json(playback, rows)},
                      {"links", links_json(playback, outcome, rows)}};
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace taut::cli
