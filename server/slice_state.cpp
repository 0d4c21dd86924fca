#include "server/slice_state.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "common/check.hpp"
#include "common/math/filler.hpp"

namespace taut::server {

SliceState::SliceState(const TableSpec& table, const Slice& slice, const JobView& job,
                       BufferPool& pool, const SliceImage* begin, BufferPool* images)
    : place_(slice),
      kind_(table.kind),
      lr_mult_(table.lr_mult),
      decay_mult_(table.decay_mult),
      pool_(pool),
      images_(images == nullptr ? pool : *images),
      policy_(make_aggregation(job.policies.backup_workers)),
      keeps_reads_(job.policies.keeps_reads() && kind_ == TableKind::kTrained),
      keeps_values_(job.policies.compensation && kind_ == TableKind::kTrained),
      clock_(job.policies.backup_workers, job.policies.schedule),
      values_(pool.acquire(slice.count * sizeof(float))) {
  if (begin == nullptr && !table.origin) {
    math::fill(table.filler, job.seed, table.name, slice.offset, values_.floats());
  }
  const int states = kind_ == TableKind::kTrained ? job.rule.state_count() : 0;
  for (int i = 0; i < states; ++i) {
    rule_state_.push_back(images_.acquire(slice.count * sizeof(float)));
    std::ranges::fill(rule_state_.back().floats(), 0.0F);
  }
  if (keeps_values_ && job.policies.compensation->is_adaptive()) {
    mean_square_ = images_.acquire(slice.count * sizeof(float));
    std::ranges::fill(mean_square_.floats(), 0.0F);
  }
  if (begin != nullptr) begin_from(*begin);
  clock_.update(job.membership);
  take_order(job);
}

/// What goes along beside the values: the rule's states, then that of delay compensation.
std::vector<Buffer> SliceState::kept_states() const {
  std::vector<Buffer> states = rule_state_;
  if (mean_square_) states.push_back(mean_square_);
  return states;
}

void SliceState::begin_from(const SliceImage& image) {
  TAUT_CHECK(image.values.size() == values_.size(), "an image of another slice");
  std::ranges::copy(image.values.floats(), values_.floats().begin());
  const std::vector<Buffer> states = kept_states();
  TAUT_CHECK(image.states.size() == states.size(), "an image of another rule");
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::ranges::copy(image.states[i].floats(), states[i].floats().begin());
  }
  applications_ = image.applications;
  for (const auto& [worker, done] : image.done) clock_.begin_at(worker, done);
  applied_ = image.done;
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
  capture_if_due(job);
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
  for (const WorkerId worker : application.workers) applied_[worker] = application.clock.next();
  if (kind_ == TableKind::kFrozen) return;

  Buffer out = where_to_write();
  const auto members = static_cast<double>(application.members);
  if (kind_ == TableKind::kAveraged) {
    const double share = static_cast<double>(application.workers.size()) / members;
    math::apply_average(gradients, static_cast<float>(share), values_.floats(), out.floats());
  } else {
    const double share = math::decay_share(job.rule, scales, application.members);
    const math::UpdateStep step =
        math::make_step(job.rule, application.clock.value(), lr_mult_, decay_mult_, share,
                        applications_, application.members);
    std::vector<float*> state;
    for (std::size_t i = 0; i < rule_state_.size(); ++i) {
      state.push_back(make_own(rule_state_[i], i).floats().data());
    }
    const float scale = job.sum ? 1.0F : static_cast<float>(1.0 / members);
    math::apply_update(job.rule.kind, step, gradients, scale, values_.floats(), out.floats(),
                       state);
  }
  values_ = std::move(out);
  ++applications_;
  spare_values_ = {};
  spare_states_.clear();
}

/// Over the old values, unless readers or a checkpoint still hold them.
Buffer SliceState::where_to_write() {
  if (values_.unshared()) return values_;
  return spare_values_ ? std::move(spare_values_) : pool_.acquire(values_.size());
}

/// A state that a checkpoint still holds stays as it is: from now on this slice has a copy.
Buffer& SliceState::make_own(Buffer& state, std::size_t index) {
  if (state.unshared()) return state;
  // An update in between that did not change this state may have used the spares up.
  const bool has_spare = index < spare_states_.size() && spare_states_[index];
  Buffer own = has_spare ? std::move(spare_states_[index]) : images_.acquire(state.size());
  std::ranges::copy(state.floats(), own.floats().begin());
  state = std::move(own);
  return state;
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
    const auto mean_square =
        mean_square_ ? make_own(mean_square_, rule_state_.size()).floats() : std::span<float>();
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

std::optional<Answer> SliceState::read(const Reader& reader, const JobView& job, Slack under) {
  const Slack slack = job.slack_at(reader.clock, under);
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
  take_order(job);
  release(released);
}

void SliceState::take_order(const JobView& job) {
  for (const Member& member : job.membership.members()) {
    applied_.try_emplace(member.worker, member.join);
  }
  if (job.checkpoint.number != order_) {
    order_ = job.checkpoint.number;
    image_ = {};
    capture_ = order_ == 0 ? Capture::kNone : Capture::kDue;
  }
  capture_if_due(job);
}

/// While clocks are aggregated, V stands at the order's clock until all updates of that clock have
/// come, and the values are exactly those below it. On arrival they hold what came since too, and
/// `done` says what that is.
void SliceState::capture_if_due(const JobView& job) {
  if (capture_ != Capture::kDue) return;
  const Clock clock = job.checkpoint.clock;
  // A frozen table is never pushed, so its V does not move.
  if (kind_ != TableKind::kFrozen) {
    if (clock_.version() < clock) return;
    if (clock_.version() > clock && job.membership.mode_at(clock) == ApplyMode::kAggregate) {
      capture_ = Capture::kMissed;
      return;
    }
  }
  try {
    // Memory for the next update is asked for now, while it can still be done without.
    if (kind_ != TableKind::kFrozen) {
      spare_values_ = pool_.acquire(values_.size());
      spare_states_.clear();
      for (const Buffer& state : kept_states()) {
        spare_states_.push_back(images_.acquire(state.size()));
      }
    }
    image_ = {place_, clock_.version(), applications_, applied_, values_, kept_states()};
    capture_ = Capture::kReady;
  } catch (const std::bad_alloc&) {
    // Training goes on; a later order may find memory.
    image_ = {};
    spare_values_ = {};
    spare_states_.clear();
    capture_ = Capture::kMissed;
  }
}

SliceImage SliceState::take_image() {
  TAUT_CHECK(capture_ == Capture::kReady, "an image that is not there");
  capture_ = Capture::kNone;
  return std::exchange(image_, {});
}

}  // namespace taut::server
