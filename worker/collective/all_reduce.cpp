#include "worker/collective/all_reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "common/check.hpp"

namespace taut::collective {
namespace {

/// A payload may have any alignment.
void add(std::span<float> sum, std::span<const std::byte> values) {
  const std::byte* const from = values.data();
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    sum[i] += value;
  }
}

}  // namespace

std::string to_string(Phase phase, Range range) {
  return fmt::format("elements [{}, {}) as {}", range.begin, range.end,
                     phase == Phase::kPartial ? "a partial sum" : "the sum");
}

AllReduce::AllReduce(const Schedule& schedule, const Buffer& values, std::uint64_t chunk)
    : AllReduce(schedule, values, chunk, values.size() / sizeof(float)) {}

AllReduce::AllReduce(const Schedule& schedule, Buffer values, std::uint64_t chunk,
                     std::uint64_t total)
    : values_(std::move(values)), count_(total), chunk_(chunk) {
  TAUT_CHECK(chunk > 0, "messages without elements");
  steps_.reserve(schedule.size());
  for (const Transfer& transfer : schedule) {
    TAUT_CHECK(transfer.range.end <= count_ && !transfer.range.empty() &&
                   transfer.place().end <= values_.size() / sizeof(float),
               "elements of other values");
    Step step{.what = transfer, .end_done = transfer.range.begin, .after = {}, .before = {}};
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Transfer& earlier = steps_[i].what;
      // Two sends of the same elements only read them, in any order.
      const bool only_reads = transfer.is_send && earlier.is_send;
      if (only_reads || !earlier.place().overlaps(transfer.place())) continue;
      step.after.push_back(i);
      steps_[i].before.push_back(steps_.size());
    }
    left_ += transfer.range.size();
    steps_.push_back(std::move(step));
  }
}

std::vector<ChunkTo> AllReduce::start(TimePoint now) {
  last_applied_ = now;
  std::vector<ChunkTo> out;
  for (std::size_t i = 0; i < steps_.size(); ++i) advance(i, out);
  return out;
}

Range AllReduce::next_chunk(const Step& step) const {
  return {step.end_done, std::min(step.end_done + chunk_, step.what.range.end)};
}

bool AllReduce::may_proceed(const Step& step, Range chunk) const {
  return std::ranges::all_of(step.after, [&](std::size_t i) {
    const Step& earlier = steps_[i];
    const std::uint64_t end = chunk.end + step.what.shift;
    return earlier.what.place().begin >= end ||
           earlier.end_done + earlier.what.shift >= std::min(end, earlier.what.place().end);
  });
}

void AllReduce::apply(const Step& step, Range chunk, const Frame& payload) {
  const std::span<float> own =
      values_.floats().subspan(chunk.begin + step.what.shift, chunk.size());
  if (step.what.phase == Phase::kPartial) {
    add(own, payload.bytes());
  } else {
    std::memcpy(own.data(), payload.bytes().data(), payload.size());
  }
}

/// Advances a step as far as possible, and then those that wait for it.
void AllReduce::advance(std::size_t first, std::vector<ChunkTo>& out) {
  std::vector<std::size_t> pending{first};
  while (!pending.empty()) {
    const std::size_t current = pending.back();
    pending.pop_back();
    Step& step = steps_[current];
    const std::uint64_t before = step.end_done;
    while (step.end_done < step.what.range.end) {
      const Range chunk = next_chunk(step);
      if (!may_proceed(step, chunk)) break;
      if (step.what.is_send) {
        const Frame payload =
            Frame(values_).part(chunk.begin * sizeof(float), chunk.size() * sizeof(float));
        out.push_back(
            {step.what.peer, {step.what.phase, count_, chunk.begin, chunk.size(), payload}});
      } else {
        const auto arrived = step.held.find(chunk.begin);
        if (arrived == step.held.end()) break;
        apply(step, chunk, arrived->second);
        step.held.erase(arrived);
      }
      step.end_done = chunk.end;
      left_ -= chunk.size();
    }
    if (step.end_done == before) continue;
    // In reverse: the first of them is then taken first, from the end.
    pending.insert(pending.end(), step.before.rbegin(), step.before.rend());
  }
}

AllReduce::Step* AllReduce::expected(Rank from, const Chunk& chunk) {
  const auto is_of = [&](const Step& step) {
    const Range range = step.what.range;
    return !step.what.is_send && step.what.peer == from && step.what.phase == chunk.phase &&
           chunk.offset >= range.begin && chunk.offset < range.end &&
           (chunk.offset - range.begin) % chunk_ == 0 &&
           chunk.count == std::min(chunk_, range.end - chunk.offset);
  };
  const auto found = std::ranges::find_if(steps_, is_of);
  return found == steps_.end() ? nullptr : &*found;
}

Result<std::vector<ChunkTo>> AllReduce::receive(Rank from, const Chunk& chunk, TimePoint now) {
  if (chunk.total != count_) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("rank {} sums {} elements and this one {}: every rank must sum "
                                  "the same values in the same order",
                                  from.value(), chunk.total, count_));
  }
  Step* const step = expected(from, chunk);
  if (step == nullptr) {
    return invalid(
        fmt::format("rank {} sent {} elements from {} on as {}, which this rank does "
                    "not receive from it",
                    from.value(), chunk.count, chunk.offset,
                    chunk.phase == Phase::kPartial ? "a partial sum" : "the sum"));
  }
  if (chunk.payload.size() / sizeof(float) != chunk.count ||
      chunk.payload.size() % sizeof(float) != 0) {
    return invalid(fmt::format("rank {} announced {} elements and sent {} bytes", from.value(),
                               chunk.count, chunk.payload.size()));
  }
  std::vector<ChunkTo> out;
  if (chunk.offset < step->end_done || !step->held.emplace(chunk.offset, chunk.payload).second) {
    ++repeated_;
    return out;
  }
  last_applied_ = now;
  advance(static_cast<std::size_t>(step - steps_.data()), out);
  return out;
}

std::optional<AllReduce::Missing> AllReduce::waits_for(TimePoint now) const {
  for (const Step& step : steps_) {
    if (step.what.is_send || step.end_done == step.what.range.end) continue;
    const Range chunk = next_chunk(step);
    if (!may_proceed(step, chunk)) continue;
    return Missing{step.what.peer, step.what.phase, chunk, now - last_applied_};
  }
  return std::nullopt;
}

}  // namespace taut::collective
