#include "tests/unit/plan/plan_player.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace taut::test {
namespace {
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
}  // namespace

PlanPlayer::PlanPlayer(const AccessTrace& trace, const MemoryPlan& plan, std::uint64_t seed)
    : trace_(trace),
      plan_(plan),
      random_(seed),
      arena_(plan.arena_bytes.value(), kPoison),
      host_(trace.buffers.size(), kPoison),
      truth_(trace.buffers.size(), kPoison),
      live_(plan.residencies.size(), false) {
  for (std::size_t buffer = 0; buffer < trace.buffers.size(); ++buffer) {
    if (trace.buffers[buffer].lifetime != Lifetime::kForever) continue;
    host_[buffer] = truth_[buffer] = next_value_++;
  }
  load_start();
}

void PlanPlayer::load_start() {
  for (std::size_t number = 0; number < live_.size(); ++number) {
    const Residency& at = plan_.residencies[number];
    live_[number] = at.end > plan_.steps.size() || plan_.permanent[at.buffer];
    if (at.holds_across_end) set_cells(number, host_[at.buffer]);
  }
}

std::uint64_t PlanPlayer::bytes(std::size_t number) const {
  return trace_.buffers[plan_.residencies[number].buffer].bytes.value();
}

std::vector<PlanPlayer::Cell> PlanPlayer::cells(std::size_t number) const {
  const auto from =
      arena_.begin() + static_cast<std::ptrdiff_t>(plan_.residencies[number].offset.value());
  return {from, from + static_cast<std::ptrdiff_t>(bytes(number))};
}

void PlanPlayer::set_cells(std::size_t number, Cell value) {
  const auto from =
      arena_.begin() + static_cast<std::ptrdiff_t>(plan_.residencies[number].offset.value());
  std::fill(from, from + static_cast<std::ptrdiff_t>(bytes(number)), value);
}

void PlanPlayer::begin_fetch(std::size_t number) {
  set_cells(number, kPoison);
  fetching_[number] = kPoison;
  moved_bytes_ += bytes(number);
  if (random_() % 2 == 0) {  // this one is read from the host at once
    fetching_[number] = host_[plan_.residencies[number].buffer];
  }
}

void PlanPlayer::land_fetch(std::size_t number) {
  const auto copy = fetching_.find(number);
  if (copy == fetching_.end()) return;  // loaded before the first iteration
  const Cell late = host_[plan_.residencies[number].buffer];
  set_cells(number, copy->second == kPoison ? late : copy->second);
  fetching_.erase(copy);
}

void PlanPlayer::begin_write_back(std::size_t number) {
  host_[plan_.residencies[number].buffer] = kPoison;
  writing_back_[number] = random_() % 2 == 0 ? cells(number).front() : kPoison;
  moved_bytes_ += bytes(number);
}

void PlanPlayer::land_write_back(std::size_t number) {
  const auto copy = writing_back_.find(number);
  if (copy == writing_back_.end()) return;
  const std::vector<Cell> now = cells(number);
  const bool whole = std::ranges::all_of(now, [&](Cell cell) { return cell == now.front(); });
  const Cell late = whole ? now.front() : kPoison;
  host_[plan_.residencies[number].buffer] = copy->second == kPoison ? late : copy->second;
  writing_back_.erase(copy);
}

void PlanPlayer::release(std::size_t number) {
  land_write_back(number);
  set_cells(number, kPoison);
  live_[number] = false;
}

std::string PlanPlayer::claim(std::size_t step) {
  for (std::size_t number = 0; number < live_.size(); ++number) {
    const Residency& at = plan_.residencies[number];
    if (plan_.permanent[at.buffer] || at.begin != step) continue;
    if (live_[number]) return fmt::format("residency {} begins twice", number);
    live_[number] = true;
    set_cells(number, kPoison);
  }
  for (const std::size_t number : plan_.steps[step].fetches) begin_fetch(number);
  for (const std::size_t number : plan_.steps[step].needs) land_fetch(number);
  return {};
}

std::size_t PlanPlayer::residency_for(std::size_t buffer, std::size_t step) const {
  const std::size_t steps = plan_.steps.size();
  for (std::size_t number = 0; number < live_.size(); ++number) {
    const Residency& at = plan_.residencies[number];
    if (at.buffer != buffer || !live_[number]) continue;
    const bool now = at.first_use <= step && step <= at.last_use;
    const bool next = at.first_use <= step + steps && step + steps <= at.last_use;
    if (now || next || plan_.permanent[buffer]) return number;
  }
  return kNowhere;
}

std::string PlanPlayer::compute(std::size_t step) {
  for (const Access& access : trace_.steps[step].accesses) {
    const PlanBuffer& buffer = trace_.buffers[access.buffer];
    const std::size_t number = residency_for(access.buffer, step);
    if (number == kNowhere) return fmt::format("step {}: {} is not there", step, buffer.name);
    if (fetching_.contains(number)) return fmt::format("step {}: {} is on its way", step, number);
    if (access.mode != AccessMode::kWrite && buffer.lifetime != Lifetime::kStep) {
      for (const Cell cell : cells(number)) {
        if (cell == truth_[access.buffer] && cell != kPoison) continue;
        return fmt::format("step {}: {} holds {}, not {}", step, buffer.name, cell,
                           truth_[access.buffer]);
      }
    }
    if (access.mode == AccessMode::kRead) continue;
    truth_[access.buffer] = next_value_++;
    set_cells(number, truth_[access.buffer]);
  }
  return {};
}

std::string PlanPlayer::run_iteration() {
  moved_bytes_ = 0;
  for (std::size_t step = 0; step < plan_.steps.size(); ++step) {
    if (std::string wrong = claim(step); !wrong.empty()) return wrong;
    if (std::string wrong = compute(step); !wrong.empty()) return wrong;
    for (const std::size_t number : plan_.steps[step].write_backs) begin_write_back(number);
    for (const std::size_t number : plan_.steps[step].releases) release(number);
  }
  return {};
}

std::string PlanPlayer::check_survivors() {
  for (std::size_t buffer = 0; buffer < trace_.buffers.size(); ++buffer) {
    if (trace_.buffers[buffer].lifetime != Lifetime::kForever) continue;
    bool current = host_[buffer] == truth_[buffer];
    for (std::size_t number = 0; number < live_.size(); ++number) {
      if (plan_.residencies[number].buffer != buffer || !live_[number]) continue;
      current = current || std::ranges::all_of(cells(number),
                                               [&](Cell cell) { return cell == truth_[buffer]; });
    }
    if (!current) return fmt::format("the value of {} is lost", trace_.buffers[buffer].name);
  }
  return {};
}

std::string check_addresses(const AccessTrace& trace, const MemoryPlan& plan,
                            const PlanOptions& options) {
  const std::size_t steps = plan.steps.size();
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> taken(steps);
  for (const Residency& at : plan.residencies) {
    const std::uint64_t from = at.offset.value();
    const std::uint64_t to = from + trace.buffers[at.buffer].bytes.value();
    if (from % options.alignment.value() != 0) return fmt::format("offset {} is crooked", from);
    if (to > plan.arena_bytes.value() || plan.arena_bytes > options.budget) {
      return fmt::format("[{}, {}) leaves the arena of {} bytes, budget {}", from, to,
                         plan.arena_bytes.value(), options.budget.value());
    }
    if (at.begin >= steps || at.end > at.begin + steps || at.begin >= at.end) {
      return fmt::format("[{}, {}) is not a stay in {} steps", at.begin, at.end, steps);
    }
    for (std::size_t step = at.begin; step < at.end; ++step) {
      taken[step % steps].emplace_back(from, to);
    }
  }
  for (std::size_t step = 0; step < steps; ++step) {
    std::ranges::sort(taken[step]);
    for (std::size_t i = 1; i < taken[step].size(); ++i) {
      if (taken[step][i].first < taken[step][i - 1].second) {
        return fmt::format("step {}: two buffers at byte {}", step, taken[step][i].first);
      }
    }
  }
  return {};
}

}  // namespace taut::test
