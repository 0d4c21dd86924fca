#include "server/slice_state.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "common/math/filler.hpp"

namespace taut::server {

namespace {

std::size_t rule_states(const TableSpec& table, const JobView& job) {
  return table.kind == TableKind::kTrained ? static_cast<std::size_t>(job.rule.state_count()) : 0;
}

std::unique_ptr<RowStore> row_store(const TableSpec& table, const JobView& job) {
  return table.rows ? std::make_unique<RowStore>(table, job.seed, rule_states(table, job))
                    : nullptr;
}

/// Policies look only at the updates of trained tables.
Policies::Keeps kept_for(const TableSpec& table, const JobView& job) {
  return table.kind == TableKind::kTrained ? job.policies.keeps() : Policies::Keeps{};
}

}  // namespace

SliceState::SliceState(const TableSpec& table, const Slice& slice, const JobView& job,
                       BufferPool& pool, const PushSchedule& schedule, const SliceImage* begin,
                       BufferPool* states, std::shared_ptr<RowAllowance> allowance)
    : place_(slice),
      kind_(table.kind),
      lr_mult_(table.lr_mult),
      decay_mult_(table.decay_mult),
      policy_(job.policies.aggregation()),
      keeps_(kept_for(table, job)),
      counts_some_(job.policies.backup_workers() > 0),
      rule_states_(rule_states(table, job)),
      pool_(pool),
      memory_(table.rows ? 0 : slice.count, table.rows ? 0 : rule_states_ + keeps_.states, pool,
              states == nullptr ? pool : *states),
      rows_(row_store(table, job)),
      pulled_(job.compression.of_pull(table), job.seed, slice, pool),
      clock_(job.policies.backup_workers(), schedule),
      allowance_(std::move(allowance)) {
  if (begin != nullptr) {
    start_from(*begin, job);
  } else if (!table.origin && !rows_) {
    math::fill(table.filler, job.seed, table.name, slice.offset, memory_.initial_values());
  }
  if (begin != nullptr && begin->is_replica) {
    take_over(*begin, job);
  } else {
    clock_.update(job.membership);
  }
  note_members(job);
  capture_if_due(job);
}

void SliceState::start_from(const SliceImage& image, const JobView& job) {
  if (rows_) {
    rows_->start_from(image.rows);
  } else {
    memory_.start_from(image.values, image.states);
  }
  applications_ = image.applications;
  for (const auto& [worker, done] : image.done) clock_.begin_at(worker, done);
  applied_ = image.done;
  if (!image.is_replica) return;
  clock_.begin_version(image.version);
  const auto place = std::ranges::find(job.places, place_.shard, &ShardPlace::shard);
  const bool has_backups = place != job.places.end() && !place->backups.empty();
  gate_ = ReplayGate(job.membership, job.logs_updates && has_backups);
}

/// Accepts again what was logged for the previous primary, since readers may have seen it: under
/// the membership of that time, when no member that is lost now had left. Such a member then leaves
/// where its updates end, even past its leave clock: the previous primary may have applied them
/// before that clock was known.
void SliceState::take_over(const SliceImage& image, const JobView& job) {
  JobView before = job;
  before.membership = job.membership.before_losses();
  clock_.update(before.membership);
  std::vector<Answer> released;  // none: no read waits yet
  for (const LoggedUpdate& one : image.logged) {
    if (job.membership.find(one.worker) == nullptr) continue;
    (void)push(one.worker, one.update, before, released);
  }
  for (const Member& member : job.membership.members()) {
    const Clock reached = clock_.done(member.worker);
    if (!member.fenced || reached == member.leave || member.leave == Clock::never()) continue;
    // What it had sent beyond its leave was dropped before the image was made.
    const auto kept = image.done.find(member.worker);
    if (kept != image.done.end() && kept->second > member.leave) continue;
    leaves_here_.emplace(member.worker, std::max(reached, member.join));
  }
  membership_ = job.membership.with_leaves(leaves_here_);
  clock_.update(members_of(job));
}

PushVerdict SliceState::push(WorkerId worker, const Update& update, const JobView& job,
                             std::vector<Answer>& released) {
  const Clock clock = update.clock;
  const PushVerdict verdict = clock_.judge(worker, clock);
  if (verdict != PushVerdict::kAccept) return verdict;
  if (counts_some_ && clock < clock_.version()) {
    // This clock's aggregate was made of enough others.
    clock_.accept(worker, clock);
    ++dropped_;
    release(released, worker);
    return verdict;
  }
  auto& workers = waiting_[clock];
  workers.insert(std::upper_bound(workers.begin(), workers.end(), worker), worker);
  hold(worker, update);
  clock_.accept(worker, clock);
  apply_ready(job);
  capture_if_due(job);
  // Even when V does not rise: the worker's own parked read may have waited for this push.
  release(released, worker);
  return verdict;
}

/// Updates that must be in a checkpoint at its clock, or in the job's last values, no longer wait
/// for others once all of them have arrived; neither do updates that members have left behind,
/// before these are forgotten.
Patience SliceState::patience(const JobView& job) const {
  const Clock reached = clock_.complete_until();
  const bool is_due = capture_.state() == SliceCapture::State::kDue && !clock_.is_owed() &&
                      reached >= job.checkpoint.clock;
  const bool is_at_end = clock_.version() >= job.policies.schedule().end;
  const auto is_of_former = [&](const auto& entry) {
    const Member* member = job.membership.find(entry.first.worker);
    return member == nullptr || member->leave != Clock::never();
  };
  const bool ends = is_due || is_at_end ||
                    (job.membership.any_leaves() && std::ranges::any_of(held_, is_of_former));
  return ends ? Patience::kEnds : Patience::kWaits;
}

std::optional<Answer> SliceState::read(const Reader& reader, const JobView& job, Slack under) {
  const Slack slack = job.slack_at(reader.clock, under);
  if (may_answer() &&
      may_read(clock_.complete_until(), clock_.done(reader.worker), reader.clock, slack) &&
      reader.clock <= last_read_) {
    parked_.note_answered(reader);
    return answer(reader);
  }
  park(reader, slack);
  return std::nullopt;
}

/// Row numbers are copied: they may be part of a long message, or in the reader's own memory. If
/// there is no room for them, the read is not kept and must be sent again.
void SliceState::park(const Reader& reader, Slack slack) {
  if (!rows_ || !allowance_) return parked_.park(reader, slack);
  const std::uint64_t count = reader.rows.size() / sizeof(std::uint64_t);
  RowAllowance::Share share =
      allowance_->park(reader.worker, count, parked_.row_bytes(reader.worker));
  if (share.bytes() == 0) return;
  Reader kept = reader;
  kept.rows = Frame::copy_of(reader.rows.bytes());
  parked_.park(kept, slack, std::move(share));
}

Answer SliceState::answer(const Reader& reader) {
  if (keeps_.reads) {
    ReadBase& base = bases_[reader.worker];
    // A late copy of an older read changes nothing.
    if (reader.clock >= base.clock) {
      base = {reader.clock, applications_, keeps_.values ? memory_.values() : Buffer()};
    }
  }
  return {reader,
          clock_.version(),
          clock_.done(reader.worker),
          rows_ ? values_of(reader.rows) : pulled_.of(memory_.values(), applications_),
          false,
          rows_ ? math::Encoding() : pulled_.encoding()};
}

/// The values of a bucket's rows. Throws std::bad_alloc.
Frame SliceState::values_of(const Frame& rows) {
  const std::size_t count = rows.size() / sizeof(std::uint64_t);
  if (count == 0) return {};
  Buffer values = pool_.acquire(count * place_.count * sizeof(float));
  rows_->read(rows.bytes(), values.floats());
  return Frame(values);
}

Answer SliceState::snapshot(const Reader& reader) {
  return {reader, clock_.version(), Clock(), values_of(reader.rows)};
}

Answer SliceState::snapshot(PeerId peer) const {
  return {Reader{peer, WorkerId(), clock_.version()}, clock_.version(), Clock(),
          Frame(memory_.values())};
}

/// A frozen slice is valid for every version.
Answer SliceState::answer_follower(PeerId peer, Clock version) const {
  Answer answer{
      Reader{peer, WorkerId(), version}, clock_.version(), clock_.complete_until(), {}, true};
  if (!is_written()) {
    answer.version = Clock();
    answer.done = Clock::never();
  }
  if (answer.version <= version) answer.values = Frame(memory_.values());
  return answer;
}

std::optional<Answer> SliceState::follow(PeerId peer, Clock version) {
  const bool is_reached = !is_written() || version <= clock_.complete_until();
  if (may_answer() && is_reached) {
    follows_.forget(peer);
    return answer_follower(peer, version);
  }
  follows_.park(peer, version);
  return std::nullopt;
}

void SliceState::release(std::vector<Answer>& released, std::optional<WorkerId> pushed) {
  gate_.pass(clock_);
  if (!may_answer()) return;
  for (const Reader& reader : parked_.take_true(clock_, last_read_, pushed)) {
    released.push_back(answer(reader));
  }
  if (follows_.empty()) return;
  const Clock until = is_written() ? clock_.complete_until() : Clock::never();
  for (const ParkedFollows::Request& request : follows_.take_reached(until)) {
    released.push_back(answer_follower(request.peer, request.version));
  }
}

void SliceState::hear_replays(WorkerId worker, Clock until, std::vector<Answer>& released) {
  if (gate_.is_open()) return;
  gate_.hear(worker, until);
  release(released);
}

void SliceState::note_backed(std::vector<Answer>& released) {
  gate_.note_backed();
  release(released);
}

void SliceState::note_kept(const KeptImage& kept, const JobView& job,
                           std::vector<Answer>& released) {
  if (kept_ == kept) return;
  kept_ = kept;
  release(released);
  if (!is_hidden()) apply_ready(job);
}

void SliceState::end_wait(const JobView& job, std::vector<Answer>& released) {
  while (const auto application = policy_->next(waiting_, members_of(job), Patience::kEnds)) {
    apply(*application, job);
  }
  release(released);
}

void SliceState::update(const JobView& job, std::vector<Answer>& released) {
  if (!leaves_here_.empty()) membership_ = job.membership.with_leaves(leaves_here_);
  const Membership& membership = members_of(job);
  gate_.update(membership);
  for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
    const Clock clock = waiting->first;
    std::erase_if(waiting->second, [&](WorkerId worker) {
      const Member* member = membership.find(worker);
      const bool left = member == nullptr || clock >= member->leave;
      if (left && held_.contains({clock, worker})) (void)take_held({clock, worker});
      return left;
    });
    waiting = waiting->second.empty() ? waiting_.erase(waiting) : std::next(waiting);
  }
  parked_.update(job);
  clock_.update(membership);
  apply_ready(job);
  // What a departed member has left in a buffer is late, too: its base is kept until that is
  // applied.
  std::erase_if(bases_, [&](const auto& entry) {
    const Member* member = job.membership.find(entry.first);
    const auto is_of_member = [&](const auto& held) { return held.first.worker == entry.first; };
    return member == nullptr || (member->fenced && std::ranges::none_of(held_, is_of_member));
  });
  note_members(job);
  capture_if_due(job);
  release(released);
}

SliceState::Position SliceState::position(WorkerId worker, Slack slack) const {
  const Clock done = clock_.done(worker);
  // Its read may be on its way while its push has arrived.
  const bool is_at_bound = !may_read(clock_.complete_until(), done, done, slack);
  const bool waits = is_at_bound || parked_.holds(worker);
  return {waits ? done - 1 : done, waits};
}

void SliceState::note_members(const JobView& job) {
  std::erase_if(applied_,
                [&](const auto& entry) { return job.membership.find(entry.first) == nullptr; });
  for (const Member& member : job.membership.members()) {
    applied_.try_emplace(member.worker, member.join);
  }
  capture_.take_order(job.checkpoint);
}

void SliceState::capture_if_due(const JobView& job) {
  if (capture_.state() == SliceCapture::State::kDue) apply_ready(job);
  capture_.capture_if_due(job, is_written(), clock_, [this] { return make_image(); });
}

Clock SliceState::settled(WorkerId worker) const {
  const auto held =
      std::ranges::find(held_, worker, [](const auto& entry) { return entry.first.worker; });
  return held == held_.end() ? clock_.done(worker) : held->first.clock;
}

std::map<WorkerId, Clock> SliceState::settled_members() const {
  std::map<WorkerId, Clock> settled;
  // held_ ascends by clock: the first update of each member is its lowest.
  for (const auto& [of, update] : held_) settled.emplace(of.worker, of.clock);
  for (const auto& [worker, clock] : applied_) settled.emplace(worker, clock_.done(worker));
  return settled;
}

std::vector<LoggedUpdate> SliceState::held_updates() const {
  std::vector<LoggedUpdate> updates;
  for (const auto& [of, update] : held_) {
    updates.push_back({place_.table, place_.slice, of.worker, 0, place_.count, update});
  }
  return updates;
}

SliceImage SliceState::image() {
  SliceImage image = make_image();
  image.done = settled_members();
  image.is_replica = true;
  return image;
}

SliceImage SliceState::make_image() {
  // Memory for the next update is allocated now, while the checkpoint can still be given up.
  if (rows_) {
    SliceImage image{place_, clock_.version(), applications_, applied_, false, {}, {}, {}, {}};
    image.rows = rows_->image();
    return image;
  }
  if (is_written()) memory_.reserve();
  return {place_, clock_.version(), applications_,    applied_,
          false,  memory_.values(), memory_.states(), {},
          {}};
}

}  // namespace taut::server
