// The updates of a slice: held until they are due, weighed and applied.
#include <cmath>
#include <utility>

#include "common/check.hpp"
#include "server/slice_state.hpp"

namespace taut::server {

void SliceState::hold(WorkerId worker, const Update& update) {
  const HeldUpdate of{update.clock, worker};
  held_bytes_ += update.gradient.size();
  held_[of] = update;
  if (!allowance_) return;
  shares_[of] = allowance_->hold(worker, update.clock, RowAllowance::bytes_of(update));
}

std::shared_ptr<const void> SliceState::take_room(WorkerId worker, const Update& update) const {
  if (!allowance_) return nullptr;
  return std::make_shared<const RowAllowance::Share>(
      allowance_->hold(worker, update.clock, RowAllowance::bytes_of(update)));
}

Update SliceState::take_held(const HeldUpdate& of) {
  auto held = held_.extract(of);
  TAUT_CHECK(!held.empty(), "an update that is not held");
  held_bytes_ -= held.mapped().gradient.size();
  shares_.erase(of);
  return std::move(held.mapped());
}

void SliceState::apply_ready(const JobView& job) {
  // Readers get the result of a buffer's last step before it makes the next one: in ASYNC there
  // could otherwise be a newer one whenever the backups have an image.
  if (job.has_buffer() && is_hidden() && patience(job) == Patience::kWaits) return;
  while (const auto application = policy_->next(waiting_, members_of(job), patience(job))) {
    apply(*application, job);
  }
}

/// Removes an application's updates from those held, and returns the ones that count.
SliceState::Counted SliceState::take(const Application& application, const JobView& job) {
  Counted counted;
  counted.updates.reserve(application.updates.size());
  for (const HeldUpdate& of : application.updates) {
    Update update = take_held(of);
    auto waiting = waiting_.find(of.clock);
    std::erase(waiting->second, of.worker);
    if (waiting->second.empty()) waiting_.erase(waiting);
    applied_[of.worker] = of.clock.next();
    if (is_refused(of.worker, update, job)) continue;
    // Running statistics are not gradients: no norm scales them.
    const float scale = kind_ == TableKind::kAveraged
                            ? 1.0F
                            : math::update_scale(job.rule, update.norm, decay_mult_);
    counted.scales.push_back(scale * update.weight);
    counted.weight += update.weight;
    math::GradientView& gradient = counted.gradients.emplace_back(math::GradientView{
        update.gradient.bytes().data(), counted.scales.back(), update.encoding, place_.count});
    counted.updates.push_back(std::move(update));
    if (keeps_.reads && job.membership.mode_at(of.clock) == ApplyMode::kOnArrival) {
      gradient = weigh(of, job, application.updates.size(), gradient, counted.corrected);
    }
  }
  return counted;
}

void SliceState::apply(const Application& application, const JobView& job) {
  Counted counted = take(application, job);
  if (kind_ == TableKind::kFrozen || counted.updates.empty()) return;
  if (job.is_seed(application.clock())) {
    seed(counted.gradients.front());
    return;
  }
  const std::size_t left_out = application.updates.size() - counted.updates.size();
  const std::size_t members = application.members - left_out;
  if (kind_ == TableKind::kAveraged) {
    average(counted, members);
  } else {
    step(counted, application.clock(), members, job);
  }
  ++applications_;
}

/// An aggregate has all updates of its clock, and their weights; an update that is applied alone is
/// one of `members`, whose weights are 1 on average.
double SliceState::weight_of(const Counted& counted, std::size_t members) {
  const bool is_aggregate = members == counted.updates.size();
  return is_aggregate ? counted.weight : static_cast<double>(members);
}

/// Running statistics become the weighted mean of those that were sent.
void SliceState::average(Counted& counted, std::size_t members) {
  const double each = static_cast<double>(counted.gradients.size()) / counted.weight;
  for (math::GradientView& one : counted.gradients) {
    one.scale = static_cast<float>(one.scale * each);
  }
  const double share = counted.weight / weight_of(counted, members);
  Buffer out = memory_.output();
  math::apply_average(counted.gradients, static_cast<float>(share), memory_.values().floats(),
                      out.floats());
  memory_.set_values(std::move(out));
}

/// A step of the job's rule.
void SliceState::step(const Counted& counted, Clock clock, std::size_t members,
                      const JobView& job) {
  const double whole = weight_of(counted, members);
  const double share = math::decay_share(job.rule, counted.scales, counted.weight, whole);
  // Seeding the values was not a step of the rule.
  const std::int64_t seeds = job.is_seeded ? 1 : 0;
  const math::UpdateStep step =
      math::make_step(job.rule, clock - job.first_step, lr_mult_, decay_mult_, share,
                      std::max<std::int64_t>(applications_ - seeds, 0), members);
  const float scale = job.sum ? 1.0F : static_cast<float>(1.0 / whole);
  if (rows_) {
    std::vector<RowStore::Weighed> by_rows;
    for (std::size_t i = 0; i < counted.updates.size(); ++i) {
      by_rows.push_back({&counted.updates[i], counted.gradients[i].scale});
    }
    rows_->apply(job.rule.kind, step, by_rows, scale, job_clock(clock));
    return;
  }
  std::vector<float*> state;
  for (std::size_t i = 0; i < rule_states_; ++i) state.push_back(memory_.state(i).data());
  Buffer out = memory_.output();
  math::apply_update(job.rule.kind, step, counted.gradients, scale, memory_.values().floats(),
                     out.floats(), state);
  memory_.set_values(std::move(out));
}

/// The clock by which rows are dropped: the last one that all members have pushed, since while one
/// member is ahead, others may still update a row. An aggregate's is its own clock.
/// newest  clock of an application's updates
Clock SliceState::job_clock(Clock newest) const {
  return std::max(Clock(0), std::min(newest, clock_.version() - 1));
}

/// The first member's initial values become the slice's; they count as an application, so that
/// those of other members are recognized as too late.
void SliceState::seed(const math::GradientView& values) {
  if (applications_ > 0) return;
  Buffer out = memory_.output();
  math::read_gradient(values, 0, out.floats());
  memory_.set_values(std::move(out));
  ++applications_;
}

/// Whether an update is ignored because it is not finite; counts it.
bool SliceState::is_refused(WorkerId worker, const Update& update, const JobView& job) {
  if (!job.refuses_bad_updates || kind_ == TableKind::kFrozen) return false;
  // In an update by rows, the row numbers come before the gradients.
  const std::size_t begin = update.by_rows ? update.rows * sizeof(std::uint64_t) : 0;
  const std::size_t count = update.by_rows ? update.rows * place_.count : place_.count;
  const math::GradientView gradient{update.gradient.bytes().data() + begin, 1, update.encoding,
                                    count};
  if (std::isfinite(update.norm) && math::all_finite(gradient, count)) return false;
  ++bad_updates_[worker];
  return true;
}

/// Applies the policies to an update that may be late. The worker's newest read is taken as the one
/// that it computed from: they differ only if an answer was lost or repeated.
/// together   how many updates are applied in one step
/// corrected  keeps the result alive
math::GradientView SliceState::weigh(const HeldUpdate& of, const JobView& job, std::size_t together,
                                     math::GradientView gradient, Buffer& corrected) {
  const auto base = bases_.find(of.worker);
  if (base == bases_.end()) return gradient;  // it has read nothing that it could be late for
  const auto since = static_cast<double>(applications_ - base->second.applications) *
                     static_cast<double>(together);
  const std::size_t members = members_of(job).count_at(of.clock);
  LateUpdate update;
  update.gradient = gradient;
  update.values = memory_.values().floats();
  update.staleness = since / (job.sum ? 1.0 : static_cast<double>(members));
  if (keeps_.values) {
    corrected = memory_.scratch();
    update.read = base->second.values.floats();
    update.corrected = corrected.floats();
  }
  job.policies.weigh(update, [this](std::size_t i) { return memory_.state(rule_states_ + i); });
  return update.gradient;
}

}  // namespace taut::server
