#include "server/slice_state.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "common/math/filler.hpp"

namespace taut::server {

SliceState::SliceState(const TableSpec& table, const Slice& slice, const JobView& job,
                       BufferPool& pool)
    : place_(slice),
      kind_(table.kind),
      lr_mult_(table.lr_mult),
      decay_mult_(table.decay_mult),
      pool_(pool),
      policy_(make_aggregation(job.policies.backup_workers)),
      keeps_reads_(job.policies.keeps_reads() && kind_ == TableKind::kTrained),
      keeps_values_(job.policies.compensation && kind_ == TableKind::kTrained),
      clock_(job.policies.backup_workers, job.policies.schedule),
      values_(pool.acquire(slice.count * sizeof(float))) {
  if (!table.origin) {
    math::fill(table.filler, job.seed, table.name, slice.offset, values_.floats());
  }
  const int states = kind_ == TableKind::kTrained ? job.rule.state_count() : 0;
  for (int i = 0; i < states; ++i) {
    rule_state_.push_back(pool.acquire(slice.count * sizeof(float)));
    std::ranges::fill(rule_state_.back().floats(), 0.0F);
  }
  if (keeps_values_ && job.policies.compensation->is_adaptive()) {
    mean_square_ = pool.acquire(slice.count * sizeof(float));
    std::ranges::fill(mean_square_.floats(), 0.0F);
  }
  clock_.update(job.membership);
}

PushVerdict SliceState::push(WorkerId worker, Clock clock, const Frame& gradient, float scale,
                             const JobView& job, std::vector<Answer>& released) {
  const PushVerdict verdict = clock_.judge(worker, clock);
  if (verdict != PushVerdict::kAccept) return verdict;
  if (clock < clock_.version()) {
    // Enough others have made this clock's aggregate.
    clock_.accept(worker, clock);
    ++dropped_;
    release(released);
    return verdict;
  }
  auto& workers = waiting_[clock];
  workers.insert(std::upper_bound(workers.begin(), workers.end(), worker), worker);
  // Running statistics are no gradients: nothing scales them.
  held_[{clock, worker}] = Held{gradient, kind_ == TableKind::kAveraged ? 1.0F : scale};
  clock_.accept(worker, clock);
  apply_ready(job);
  // Even when V stands still: the worker's own parked read may have waited for this push.
  release(released);
  return verdict;
}

void SliceState::apply_ready(const JobView& job) {
  while (const auto application = policy_->next(waiting_, job.membership)) apply(*application, job);
}

void SliceState::apply(const Application& application, const JobView& job) {
  std::vector<math::GradientView> gradients;
  std::vector<float> scales;
  std::vector<Frame> alive;
  Buffer corrected;
  for (const WorkerId worker : application.workers) {
    auto held = held_.extract({application.clock, worker});
    TAUT_CHECK(!held.empty(), "an application of an update that is not held");
    gradients.push_back({held.mapped().gradient.bytes().data(), held.mapped().scale});
    scales.push_back(held.mapped().scale);
    alive.push_back(std::move(held.mapped().gradient));
    if (keeps_reads_ && job.membership.mode_at(application.clock) == ApplyMode::kOnArrival) {
      gradients.back() = weigh(worker, job, application.members, gradients.back(), corrected);
    }
  }
  auto waiting = waiting_.find(application.clock);
  std::erase_if(waiting->second, [&](WorkerId worker) {
    return std::ranges::find(application.workers, worker) != application.workers.end();
  });
  if (waiting->second.empty()) waiting_.erase(waiting);
  if (kind_ == TableKind::kFrozen) return;

  // Readers may still hold the buffer: then the new values go into another one.
  Buffer out = values_.unshared() ? values_ : pool_.acquire(values_.size());
  const auto members = static_cast<double>(application.members);
  if (kind_ == TableKind::kAveraged) {
    const double share = static_cast<double>(application.workers.size()) / members;
    math::apply_average(gradients, static_cast<float>(share), values_.floats(), out.floats());
  } else {
    const double share = math::decay_share(job.rule, scales, application.members);
    const math::UpdateStep step = math::make_step(job.rule, application.clock.value(), lr_mult_,
                                                  decay_mult_, share, applications_);
    std::vector<float*> state;
    for (const Buffer& buffer : rule_state_) state.push_back(buffer.floats().data());
    const float scale = job.sum ? 1.0F : static_cast<float>(1.0 / members);
    math::apply_update(job.rule.kind, step, gradients, scale, values_.floats(), out.floats(),
                       state);
  }
  values_ = std::move(out);
  ++applications_;
}

/// What a policy makes of an update that may be late. The worker's newest read stands for the one
/// that it computed from: only where an answer was lost or repeated are they not the same.
/// corrected  keeps the result alive
math::GradientView SliceState::weigh(WorkerId worker, const JobView& job, std::size_t members,
                                     math::GradientView gradient, Buffer& corrected) {
  const auto base = bases_.find(worker);
  if (base == bases_.end()) return gradient;  // it has read nothing that it could be late for
  if (job.policies.compensation) {
    corrected = pool_.acquire(values_.size());
    const auto mean_square = mean_square_ ? mean_square_.floats() : std::span<float>();
    math::compensate_delay(*job.policies.compensation, gradient, values_.floats(),
                           base->second.values.floats(), mean_square, corrected.floats());
    gradient = {corrected.data(), 1.0F};
  }
  if (job.policies.staleness_rate) {
    const auto since = static_cast<double>(applications_ - base->second.applications);
    const double one_clock = job.sum ? 1.0 : static_cast<double>(members);
    gradient.scale *= math::staleness_scale(since / one_clock);
  }
  return gradient;
}

std::optional<Answer> SliceState::read(const Reader& reader, const JobView& job) {
  const Slack slack = job.slack_at(reader.clock);
  if (may_read(clock_.version(), clock_.done(reader.worker), reader.clock, slack)) {
    // A late copy of an older read leaves a newer one parked.
    const auto parked = parked_.find(reader.worker);
    if (parked != parked_.end() && parked->second.reader.clock <= reader.clock) {
      parked_.erase(parked);
    }
    return answer(reader);
  }
  const auto [entry, added] = parked_.try_emplace(reader.worker, Parked{reader, slack});
  if (!added && reader.clock >= entry->second.reader.clock) entry->second = {reader, slack};
  return std::nullopt;
}

Answer SliceState::answer(const Reader& reader) {
  if (keeps_reads_) {
    ReadBase& base = bases_[reader.worker];
    // A late copy of an older read changes nothing.
    if (reader.clock >= base.clock) {
      base = {reader.clock, applications_, keeps_values_ ? values_ : Buffer()};
    }
  }
  return {reader, clock_.version(), clock_.done(reader.worker), Frame(values_)};
}

Answer SliceState::snapshot(PeerId peer) const {
  return {Reader{peer, WorkerId(), clock_.version()}, clock_.version(), Clock(), Frame(values_)};
}

void SliceState::release(std::vector<Answer>& released) {
  for (auto parked = parked_.begin(); parked != parked_.end();) {
    const Reader& reader = parked->second.reader;
    if (may_read(clock_.version(), clock_.done(reader.worker), reader.clock,
                 parked->second.slack)) {
      released.push_back(answer(reader));
      parked = parked_.erase(parked);
    } else {
      ++parked;
    }
  }
}

void SliceState::update(const JobView& job, std::vector<Answer>& released) {
  for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
    const Clock clock = waiting->first;
    std::erase_if(waiting->second, [&](WorkerId worker) {
      const Member* member = job.membership.find(worker);
      const bool left = member == nullptr || clock >= member->leave;
      if (left) held_.erase({clock, worker});
      return left;
    });
    waiting = waiting->second.empty() ? waiting_.erase(waiting) : std::next(waiting);
  }
  std::erase_if(parked_, [&](const auto& entry) {
    const Member* member = job.membership.find(entry.first);
    return member == nullptr || member->fenced;
  });
  std::erase_if(bases_, [&](const auto& entry) {
    const Member* member = job.membership.find(entry.first);
    return member == nullptr || member->fenced;
  });
  for (auto& [worker, parked] : parked_) {
    parked.slack = job.slack_at(parked.reader.clock, std::max(parked.slack, job.slack));
  }
  clock_.update(job.membership);
  apply_ready(job);
  release(released);
}

}  // namespace taut::server
