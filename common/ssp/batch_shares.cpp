#include "common/ssp/batch_shares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/check.hpp"

namespace taut {
namespace {

std::uint64_t sum_of(std::span<const std::uint32_t> records) {
  return std::accumulate(records.begin(), records.end(), std::uint64_t{0});
}

/// The time of the slowest of the slots that are measured.
double clock_time(std::span<const MeasuredShare> measured, std::span<const std::uint32_t> records) {
  double longest = 0;
  for (const MeasuredShare& one : measured) {
    longest = std::max(longest, one.seconds_of(records[one.slot]));
  }
  return longest;
}

/// The time in which these slots together compute `records` records, each all of the time.
double common_time(std::span<const MeasuredShare> measured, double records) {
  double speed = 0;
  for (const MeasuredShare& one : measured) {
    speed += 1 / one.seconds_per_record;
    records += one.fixed_s / one.seconds_per_record;
  }
  return records / speed;
}

/// Shares of a batch, not rounded, each at least one record; in the order of `measured`.
std::vector<double> exact_shares(std::span<const MeasuredShare> measured, double batch) {
  std::vector<MeasuredShare> open(measured.begin(), measured.end());
  double time = common_time(open, batch);
  // A slot that takes longer for a single record has just one, and the others have the rest.
  const auto is_slow = [&time](const MeasuredShare& one) { return one.seconds_of(1) > time; };
  while (std::erase_if(open, is_slow) > 0 && !open.empty()) {
    time = common_time(open, batch - static_cast<double>(measured.size() - open.size()));
  }
  std::vector<double> shares;
  for (const MeasuredShare& one : measured) {
    shares.push_back(std::max(1.0, (time - one.fixed_s) / one.seconds_per_record));
  }
  return shares;
}

}  // namespace

BatchShares::BatchShares(std::uint32_t equal, std::uint32_t slots)
    : equal_(equal), total_(std::uint64_t{equal} * slots) {
  TAUT_CHECK(equal > 0 && slots > 0, "a share has records");
  // Below every clock.
  changes_[Clock(-1)].assign(slots, equal);
}

std::string BatchShares::why_not(Clock first, std::span<const std::uint32_t> records) const {
  if (changes_.empty()) return "there is no batch";
  const auto& [newest, shares] = *changes_.rbegin();
  if (first <= newest || first <= Clock(0)) {
    return fmt::format("shares from clock {} on come after those from clock {} on", first.value(),
                       newest.value());
  }
  if (records.size() != shares.size()) {
    return fmt::format("{} shares of {} slots", records.size(), shares.size());
  }
  if (std::ranges::find(records, 0U) != records.end()) return "a share of no records";
  if (sum_of(records) == total_) return {};
  return fmt::format("the shares have {} records in total, a batch has {}", sum_of(records),
                     total_);
}

void BatchShares::change(Clock first, std::vector<std::uint32_t> records) {
  TAUT_CHECK(why_not(first, records).empty(), "shares that make a batch");
  changes_[first] = std::move(records);
}

std::span<const std::uint32_t> BatchShares::at(Clock clock) const {
  TAUT_CHECK(!changes_.empty(), "shares of a batch");
  return std::prev(changes_.upper_bound(std::max(clock, Clock(0))))->second;
}

BatchShares::Part BatchShares::part(Clock clock, std::uint32_t slot) const {
  const std::span<const std::uint32_t> records = at(clock);
  TAUT_CHECK(slot < records.size(), "a slot of the job");
  return {records[slot], sum_of(records.first(slot)), total_};
}

float BatchShares::weight(Clock clock, std::uint32_t slot) const {
  return static_cast<float>(part(clock, slot).records) / static_cast<float>(equal_);
}

MeasuredShare measured_share(std::uint32_t slot, const BatchTime& now,
                             const std::optional<BatchTime>& before) {
  const double records = now.records;
  // A record is taken to have some cost, and the fixed part of a batch not to be negative.
  constexpr double kMinSlope = 0.05;
  const double in_proportion = now.seconds / records;
  if (!before || before->records == now.records) return {slot, in_proportion, 0};
  const double slope = (now.seconds - before->seconds) / (records - before->records);
  // Beyond this, the worker has become slower or faster meanwhile.
  constexpr double kSteady = 1.2;
  const bool is_steady =
      now.seconds < kSteady * before->seconds && before->seconds < kSteady * now.seconds;
  if (slope < 0 && !is_steady) return {slot, in_proportion, 0};
  const double each = std::clamp(slope, kMinSlope * in_proportion, in_proportion);
  return {slot, each, now.seconds - each * records};
}

std::optional<std::vector<std::uint32_t>> balanced_shares(std::span<const MeasuredShare> measured,
                                                          std::span<const std::uint32_t> now,
                                                          std::uint32_t equal, double min_gain) {
  TAUT_CHECK(!measured.empty(), "a slot that is measured");
  const std::uint64_t batch = std::uint64_t{equal} * measured.size();
  const std::vector<double> exact = exact_shares(measured, static_cast<double>(batch));
  std::vector<std::uint32_t> records(now.size(), equal);
  std::uint64_t given = 0;
  // The largest remainders get what rounding down leaves; ties go to the lowest slots.
  std::vector<std::pair<double, std::uint32_t>> remainders;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const std::uint64_t spare = batch - given - (measured.size() - 1 - i);
    const auto whole = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(exact[i]), 1, spare);
    records[measured[i].slot] = static_cast<std::uint32_t>(whole);
    given += whole;
    remainders.emplace_back(static_cast<double>(whole) - exact[i], measured[i].slot);
  }
  std::ranges::sort(remainders);
  for (std::size_t i = 0; given < batch; i = (i + 1) % remainders.size(), ++given) {
    ++records[remainders[i].second];
  }
  const bool gains = clock_time(measured, records) <= (1 - min_gain) * clock_time(measured, now);
  if (min_gain > 0 && !gains) return std::nullopt;
  return records;
}

}  // namespace taut
