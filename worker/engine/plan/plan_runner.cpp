#include "worker/engine/plan/plan_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "common/check.hpp"

namespace taut {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

// A buffer that a call on another stream uses (a gradient's copy) keeps its memory for this many
// more steps: otherwise the compute would wait for that call in its own step. The first of these
// for which the budget has room without moving more bytes.
constexpr std::array<std::size_t, 3> kKeptSteps = {16, 4, 1};

// Steps that a copy may overlap, since one may be far shorter than a copy. This many are used if
// the bytes moved grow by at most 1 / kMovedMore.
constexpr std::size_t kLongLookahead = 4;
constexpr std::uint64_t kMovedMore = 16;

/// The steps, with a later use added for the buffers of each step on another stream.
std::vector<TraceStep> with_kept(const std::vector<TraceStep>& steps, std::size_t kept) {
  std::vector<TraceStep> extended = steps;
  const auto uses = [&](std::size_t step, std::size_t buffer) {
    return std::ranges::find(steps[step].accesses, buffer, &Access::buffer) !=
           steps[step].accesses.end();
  };
  for (std::size_t step = 0; step < steps.size(); ++step) {
    if (steps[step].on_compute) continue;
    const std::size_t last = std::min(step + kept, steps.size() - 1);
    for (const Access& access : steps[step].accesses) {
      bool is_used = false;
      for (std::size_t i = step + 1; i <= last; ++i) is_used = is_used || uses(i, access.buffer);
      if (!is_used && last > step) {
        extended[last].accesses.push_back({access.buffer, AccessMode::kRead});
      }
    }
  }
  return extended;
}

}  // namespace

PlanRunner::PlanRunner(std::string name, std::vector<TraceStep> steps, Arena& arena, Movers& movers)
    : name_(std::move(name)),
      steps_(std::move(steps)),
      arena_(arena),
      movers_(movers),
      mark_(arena.backend().make_event()),
      number_(next_number()) {}

Result<std::unique_ptr<PlanRunner>> PlanRunner::make(std::string name, std::vector<TraceStep> steps,
                                                     const std::vector<VirtualBuffer>& buffers,
                                                     Arena& arena, Movers& movers) {
  std::unique_ptr<PlanRunner> runner(
      new PlanRunner(std::move(name), std::move(steps), arena, movers));
  runner->cycle_ = make_trace(runner->steps_, buffers);
  PlanOptions options;
  options.budget = arena.options().budget;
  options.alignment = arena.options().alignment;
  TAUT_TRY(runner->plan_, plan_memory(runner->cycle_.trace, options));
  PlanOptions longer = options;
  longer.lookahead = kLongLookahead;
  const std::uint64_t moved = runner->plan_.moved_bytes().value();
  if (auto plan = plan_memory(runner->cycle_.trace, longer);
      plan && plan.value().moved_bytes().value() <= moved + moved / kMovedMore) {
    runner->plan_ = std::move(plan.value());
    options = longer;
  }
  for (const std::size_t kept : kKeptSteps) {
    CycleTrace cycle = make_trace(with_kept(runner->steps_, kept), buffers);
    auto plan = plan_memory(cycle.trace, options);
    if (!plan || plan.value().moved_bytes().value() > runner->plan_.moved_bytes().value()) continue;
    runner->cycle_ = std::move(cycle);
    runner->plan_ = std::move(plan.value());
    break;
  }
  runner->lay_out();
  runner->find_moves();
  return runner;
}

/// Finds the stay that contains each use of each step.
void PlanRunner::lay_out() {
  const std::size_t count = steps_.size();
  newest_.assign(cycle_.trace.buffers.size(), kNowhere);
  std::vector<std::vector<std::size_t>> of_buffer(cycle_.trace.buffers.size());
  for (const Residency& at : plan_.residencies) {
    of_buffer[at.buffer].push_back(stays_.size());
    Stay stay;
    stay.at = at;
    if (at.fetched) stay.fetched = arena_.backend().make_event();
    if (at.written_back) stay.written_back = arena_.backend().make_event();
    stays_.push_back(std::move(stay));
  }
  for (std::size_t step = 0; step < count; ++step) {
    auto& found = stays_of_.emplace_back();
    for (const Access& access : steps_[step].accesses) {
      const std::size_t buffer = cycle_.numbers_of[access.buffer];
      const auto covers = [&](std::size_t number) {
        const Residency& at = stays_[number].at;
        return plan_.permanent[buffer] || (at.first_use <= step && step <= at.last_use) ||
               (at.first_use <= step + count && step + count <= at.last_use);
      };
      const auto number = std::ranges::find_if(of_buffer[buffer], covers);
      TAUT_CHECK(number != of_buffer[buffer].end(),
                 "a plan without a stay for one of its accesses");
      found.push_back(*number);
    }
  }
}

/// Finds the steps at which copies and the compute synchronize. A release without a wait does not
/// count unless the released memory is overwritten.
void PlanRunner::find_moves() {
  std::vector<bool> is_copied(stays_.size(), false);
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    if (steps_[step].on_compute) continue;
    for (const std::size_t number : stays_of_[step]) is_copied[number] = true;
  }
  const auto waits = [&](std::size_t number) {
    return arena_.options().poison || is_copied[number] || stays_[number].written_back != nullptr;
  };
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    const StepPlan& todo = plan_.steps[step];
    const bool beside = !steps_[step].on_compute;
    moves_before_.push_back(beside || !todo.fetches.empty() || !todo.needs.empty());
    moves_after_.push_back(beside || !todo.write_backs.empty() ||
                           std::ranges::any_of(todo.releases, waits));
  }
}

Bytes PlanRunner::bytes_of(const Stay& stay) const {
  return cycle_.trace.buffers[stay.at.buffer].bytes;
}

std::size_t PlanRunner::host_buffer_of(const Stay& stay) const {
  return cycle_.buffer_of[stay.at.buffer];
}

/// Whether a stay's value is needed after the end of a cycle.
bool PlanRunner::outlives(const Stay& stay) const {
  return cycle_.trace.buffers[stay.at.buffer].lifetime == Lifetime::kForever &&
         (plan_.permanent[stay.at.buffer] || stay.at.holds_across_end);
}

void PlanRunner::load(Stream& compute) {
  arena_.reserve(plan_.arena_bytes);
  newest_.assign(newest_.size(), kNowhere);
  for (std::size_t number = 0; number < stays_.size(); ++number) {
    Stay& stay = stays_[number];
    stay.address = arena_.at(stay.at.offset);
    stay.copied.reset();
    if (!outlives(stay)) continue;
    arena_.bring(compute, host_buffer_of(stay), bytes_of(stay), stay.address);
    newest_[stay.at.buffer] = number;
  }
  compute.finish();
}

void PlanRunner::unload(Stream& compute) {
  compute.finish();
  movers_.in->finish();
  movers_.out->finish();
  for (std::size_t number = 0; number < stays_.size(); ++number) {
    Stay& stay = stays_[number];
    if (stay.copied) stay.copied->finish();
    stay.copied.reset();
    if (!outlives(stay) || newest_[stay.at.buffer] != number) continue;
    const std::size_t buffer = host_buffer_of(stay);
    if (arena_.host_copy(buffer).is_current) continue;
    arena_.take_back(compute, buffer, bytes_of(stay), stay.address);
  }
  compute.finish();
  arena_.give_up(compute, arena_.at(Bytes(0)), plan_.arena_bytes);
  compute.finish();
  newest_.assign(newest_.size(), kNowhere);
}

void PlanRunner::fetch(Stream& compute, std::size_t number) {
  const Stay& stay = stays_[number];
  mark_->record(compute);
  mark_->wait(*movers_.in);
  arena_.bring(*movers_.in, host_buffer_of(stay), bytes_of(stay), stay.address);
  stay.fetched->record(*movers_.in);
}

void PlanRunner::write_back(Stream& compute, std::size_t number) {
  const Stay& stay = stays_[number];
  mark_->record(compute);
  mark_->wait(*movers_.out);
  if (stay.copied) stay.copied->wait(*movers_.out);
  arena_.take_back(*movers_.out, host_buffer_of(stay), bytes_of(stay), stay.address);
  stay.written_back->record(*movers_.out);
}

void PlanRunner::release(Stream& compute, std::size_t number) {
  Stay& stay = stays_[number];
  if (stay.written_back) stay.written_back->wait(compute);
  if (stay.copied) stay.copied->wait(compute);
  stay.copied.reset();
  if (newest_[stay.at.buffer] == number) newest_[stay.at.buffer] = kNowhere;
  arena_.give_up(compute, stay.address, bytes_of(stay));
}

void PlanRunner::note_use(std::size_t number, AccessMode mode) {
  const Stay& stay = stays_[number];
  newest_[stay.at.buffer] = number;
  if (!writes(mode)) return;
  arena_.host_copy(host_buffer_of(stay)).is_current = false;
}

/// The calls from this step on are the same if the caller's key is the same, and have the same
/// addresses if the plan and the arena are the same.
void PlanRunner::begin_segment(Stream& compute) {
  std::uint64_t key = repeat_->key;
  for (const std::uint64_t value :
       {number_, std::uint64_t{step_}, reinterpret_cast<std::uint64_t>(arena_.at(Bytes(0)))}) {
    key = (key ^ value) * 0x9E3779B97F4A7C15ULL;
    key ^= key >> 29U;
  }
  const bool is_queued = arena_.backend().begin_repeat(compute, key, repeat_->clock);
  segment_ = is_queued ? Segment::kQueued : Segment::kReplayed;
}

void PlanRunner::end_segment(Stream& compute) {
  if (std::exchange(segment_, Segment::kNone) == Segment::kQueued) {
    arena_.backend().end_repeat(compute);
  }
}

void PlanRunner::end_repeat(Stream& compute) {
  end_segment(compute);
  repeat_.reset();
}

void PlanRunner::abandon_repeat(Stream& compute) noexcept {
  if (std::exchange(segment_, Segment::kNone) == Segment::kQueued) {
    arena_.backend().abandon_repeat(compute);
  }
  repeat_.reset();
}

void PlanRunner::run(Stream& compute, Stream& stream, const DeviceCall& call) {
  const StepPlan& todo = plan_.steps[step_];
  const TraceStep& step = steps_[step_];
  if (moves_before_[step_]) end_segment(compute);
  for (const std::size_t number : todo.fetches) fetch(compute, number);
  for (const std::size_t number : todo.needs) stays_[number].fetched->wait(compute);
  std::vector<std::byte*> addresses;
  for (const Operand& operand : call.operands) {
    const VirtualPlace place = place_of(operand.address);
    const auto access = std::ranges::find(step.accesses, place.buffer, &Access::buffer);
    const std::size_t number =
        stays_of_[step_][static_cast<std::size_t>(access - step.accesses.begin())];
    addresses.push_back(stays_[number].address + place.offset);
  }
  const bool beside = &stream != &compute;
  if (beside) {
    mark_->record(compute);
    mark_->wait(stream);
  }
  if (repeat_ && !beside && segment_ == Segment::kNone) begin_segment(compute);
  if (segment_ != Segment::kReplayed) call.run(stream, addresses);
  if (moves_after_[step_]) end_segment(compute);
  for (std::size_t i = 0; i < step.accesses.size(); ++i) {
    Stay& stay = stays_[stays_of_[step_][i]];
    note_use(stays_of_[step_][i], step.accesses[i].mode);
    if (!beside) continue;
    if (!stay.copied) stay.copied = arena_.backend().make_event();
    stay.copied->record(stream);
  }
  for (const std::size_t number : todo.write_backs) write_back(compute, number);
  for (const std::size_t number : todo.releases) release(compute, number);
  ++step_;
}

std::byte* PlanRunner::newest(std::size_t buffer) const {
  if (buffer >= cycle_.numbers_of.size()) return nullptr;
  const std::size_t number = cycle_.numbers_of[buffer];
  if (number == CycleTrace::kNotUsed || newest_[number] == kNowhere) return nullptr;
  return stays_[newest_[number]].address;
}

std::string PlanRunner::expected() const {
  return is_over() ? std::string("its end") : cycle_.trace.steps[step_].name;
}

}  // namespace taut
