#include "server/coordinator/compression/scheme_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "proto/config/settle_compression.hpp"

namespace taut {
namespace {

using pb::PullCompression;
using pb::PushCompression;
using Costs = google::protobuf::RepeatedPtrField<pb::SchemeCost>;

// A smaller gain is within a prediction's error, and no reason to lose precision.
constexpr double kGain = 0.05;
// A measurement outside these bounds has failed.
constexpr double kMinBytesPerS = 100;
constexpr double kMaxBytesPerS = 1e13;
constexpr double kMaxSeconds = 1e6;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 50;

/// The schemes of updates or values that are compared: a single one if the job names it.
template <class List>
auto schemes_of(const List& list) {
  using Scheme = decltype(list.Get(0).scheme());
  return list.size() == 1 ? candidates(list.Get(0)) : std::vector<Scheme>{Scheme{}};
}

template <class List>
bool is_open(const List& list) {
  return schemes_of(list).size() > 1;
}

bool is_time(double time_s) {
  return std::isfinite(time_s) && time_s >= 0 && time_s <= kMaxSeconds;
}

/// Whether there is one sound cost for each scheme, in order.
template <class Scheme>
bool are_of(const Costs& costs, const std::vector<Scheme>& schemes) {
  return std::ranges::equal(costs, schemes, [](const pb::SchemeCost& cost, Scheme scheme) {
    return static_cast<int>(cost.scheme()) == static_cast<int>(scheme) &&
           cost.bytes() <= kMaxBytes && is_time(cost.encode_s()) && is_time(cost.decode_s());
  });
}

bool is_usable(const pb::CompressionCosts& worker, const pb::Compression& compression) {
  const double rate = worker.bytes_per_s();
  return rate >= kMinBytesPerS && rate <= kMaxBytesPerS && is_time(worker.compute_s()) &&
         are_of(worker.push(), schemes_of(compression.push())) &&
         are_of(worker.pull(), schemes_of(compression.pull()));
}

/// Predicts a worker's clock with two schemes, given by their positions in the lists.
pb::PredictedClock predict(const SchemeQuestion& question, const pb::CompressionCosts& worker,
                           int push, int pull) {
  const pb::SchemeCost& pushed = worker.push(push);
  const pb::SchemeCost& pulled = worker.pull(pull);
  // A shard decodes and adds up the updates of all these.
  const auto workers = static_cast<double>(question.workers.size());
  pb::PredictedClock clock;
  clock.set_push(pushed.scheme());
  clock.set_pull(pulled.scheme());
  clock.set_link_s(static_cast<double>(pushed.bytes() + pulled.bytes()) / worker.bytes_per_s());
  clock.set_codec_s(pushed.encode_s() + pulled.decode_s() +
                    (workers * pushed.decode_s() + pulled.encode_s()) /
                        std::max(question.shards, 1U));
  clock.set_clock_s(std::max(question.clocks, 1U) * worker.compute_s() + clock.link_s() +
                    clock.codec_s());
  return clock;
}

/// Two schemes, and the predicted clock of the worker that is slowest with them.
struct Pair {
  int push = 0;
  int pull = 0;
  pb::PredictedClock clock;
};

/// All pairs of schemes, the most exact first.
std::vector<Pair> pairs_of(const SchemeQuestion& question) {
  std::vector<Pair> pairs;
  const pb::CompressionCosts& any = question.workers.front();
  for (int push = 0; push < any.push_size(); ++push) {
    for (int pull = 0; pull < any.pull_size(); ++pull) {
      Pair& pair = pairs.emplace_back(Pair{push, pull, {}});
      for (const pb::CompressionCosts& worker : question.workers) {
        const pb::PredictedClock clock = predict(question, worker, push, pull);
        if (clock.clock_s() >= pair.clock.clock_s()) pair.clock = clock;
      }
    }
  }
  std::ranges::stable_sort(pairs, {}, [](const Pair& pair) { return pair.push + pair.pull; });
  return pairs;
}

std::string time_text(double time_s) {
  if (time_s >= 1) return fmt::format("{:.2f} s", time_s);
  if (time_s >= 0.001) return fmt::format("{:.1f} ms", 1e3 * time_s);
  return fmt::format("{:.0f} us", 1e6 * time_s);
}

std::string rate_text(double bytes_per_s) {
  const double bits = 8 * bytes_per_s;
  if (bits >= 1e9) return fmt::format("{:.1f} Gbit/s", bits / 1e9);
  return fmt::format("{:.3g} Mbit/s", bits / 1e6);
}

/// E.g. "push INT8, pull FP16", without schemes that the job names itself.
std::string names_of(const pb::Compression& requested, int push, int pull) {
  std::string text;
  if (is_open(requested.push())) {
    text = "push " + PushCompression::Scheme_Name(static_cast<PushCompression::Scheme>(push));
  }
  if (is_open(requested.pull())) {
    text += fmt::format("{}pull {}", text.empty() ? "" : ", ",
                        PullCompression::Scheme_Name(static_cast<PullCompression::Scheme>(pull)));
  }
  return text;
}
std::string names_of(const pb::Compression& requested, const pb::PredictedClock& clock) {
  return names_of(requested, clock.push(), clock.pull());
}

pb::Compression settled(const pb::Compression& requested, int push, int pull) {
  pb::Compression compression = requested;
  if (is_open(requested.push())) {
    *compression.mutable_push(0) =
        with_scheme(requested.push(0), static_cast<PushCompression::Scheme>(push));
  }
  if (is_open(requested.pull())) {
    *compression.mutable_pull(0) =
        with_scheme(requested.pull(0), static_cast<PullCompression::Scheme>(pull));
  }
  return compression;
}

std::string parts_text(const pb::PredictedClock& clock) {
  return fmt::format("{} ({} of it on the link, {} to encode and decode)",
                     time_text(clock.clock_s()), time_text(clock.link_s()),
                     time_text(clock.codec_s()));
}

/// Why a pair was chosen, compared with the fastest pair and with FLOAT32.
std::string reason(const pb::Compression& requested, const pb::PredictedClock& chosen,
                   const pb::PredictedClock& exact, const pb::PredictedClock& fastest) {
  std::string text =
      fmt::format("{}: a clock should take {}", names_of(requested, chosen), parts_text(chosen));
  if (&chosen != &exact) {
    text += fmt::format(", in place of {} with {}", time_text(exact.clock_s()),
                        names_of(requested, exact));
    if (&chosen == &fastest) return text;
    return text + fmt::format(", and {} is not 5 % faster", names_of(requested, fastest));
  }
  if (&chosen == &fastest) return text + ", and no scheme makes it shorter";
  return text + fmt::format(", and {} with {}, which is not 5 % faster",
                            time_text(fastest.clock_s()), names_of(requested, fastest));
}

}  // namespace

pb::CompressionChoice choose_schemes(const SchemeQuestion& question) {
  const pb::Compression& requested = question.compression;
  SchemeQuestion usable = question;
  std::erase_if(usable.workers, [&](const auto& worker) { return !is_usable(worker, requested); });
  const std::size_t unusable = question.workers.size() - usable.workers.size();
  pb::CompressionChoice choice;
  if (usable.workers.empty()) {
    *choice.mutable_compression() = settled(requested, 0, 0);
    choice.set_text(fmt::format("{}: no worker could measure its link, codecs and compute",
                                names_of(requested, 0, 0)));
    return choice;
  }
  const std::vector<Pair> pairs = pairs_of(usable);
  const auto clock_s = [](const Pair& pair) { return pair.clock.clock_s(); };
  const Pair& fastest = *std::ranges::min_element(pairs, {}, clock_s);
  const Pair& chosen = *std::ranges::find_if(
      pairs, [&](const Pair& pair) { return clock_s(pair) <= (1 + kGain) * clock_s(fastest); });
  *choice.mutable_compression() = settled(requested, chosen.clock.push(), chosen.clock.pull());
  double slowest = std::numeric_limits<double>::max();
  double compute_s = 0;
  for (const pb::CompressionCosts& worker : usable.workers) {
    slowest = std::min(slowest, worker.bytes_per_s());
    compute_s = std::max(compute_s, worker.compute_s());
  }
  choice.set_text(fmt::format(
      "{}; measured: {} on the slowest link, {} to compute a clock{}",
      reason(requested, chosen.clock, pairs.front().clock, fastest.clock), rate_text(slowest),
      time_text(compute_s),
      unusable == 0 ? "" : fmt::format(", nothing that is usable at {} workers", unusable)));
  for (const Pair& pair : pairs) *choice.add_predicted() = pair.clock;
  return choice;
}

std::optional<pb::CompressionChoice> keep_schemes(const pb::Compression& requested,
                                                  const pb::CompressionChoice& earlier) {
  const pb::Compression& before = earlier.compression();
  int push = 0;
  int pull = 0;
  if (is_open(requested.push())) {
    if (before.push_size() != 1) return std::nullopt;
    push = before.push(0).scheme();
    if (!std::ranges::count(candidates(requested.push(0)), before.push(0).scheme())) return {};
  }
  if (is_open(requested.pull())) {
    if (before.pull_size() != 1) return std::nullopt;
    pull = before.pull(0).scheme();
    if (!std::ranges::count(candidates(requested.pull(0)), before.pull(0).scheme())) return {};
  }
  pb::CompressionChoice choice = earlier;
  *choice.mutable_compression() = settled(requested, push, pull);
  choice.set_text(fmt::format("{}, as before the checkpoint", names_of(requested, push, pull)));
  return choice;
}

}  // namespace taut
