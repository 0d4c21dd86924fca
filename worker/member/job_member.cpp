#include "worker/member/job_member.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/log.hpp"
#include "common/math/filler.hpp"
#include "common/net/shared_arena.hpp"
#include "common/ssp/fragments.hpp"
#include "common/ssp/table_shape.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/job_tables.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "proto/session/data_secret.hpp"
#include "worker/member/named_tables.hpp"
#include "worker/member/rest_of_wait.hpp"

namespace taut {
namespace {

constexpr Duration kSilence{60'000'000};    // if the coordinator names none
constexpr Duration kLeaveWait{15'000'000};  // for the coordinator to confirm

}  // namespace

JobMember::JobMember(const MemberOptions& options, std::unique_ptr<MemberControl> control)
    : options_(options), control_(std::move(control)) {}

Result<std::unique_ptr<JobMember>> JobMember::join(const MemberOptions& options) {
  auto context = std::make_unique<ZmqContext>(options.security);
  TAUT_TRY(auto control, MemberControl::open(context->make_endpoint(), options.coordinator,
                                             options.name, options.job, options.start_wait));
  std::unique_ptr<JobMember> member(new JobMember(options, std::move(control)));
  member->context_ = std::move(context);
  return member;
}

Result<std::optional<JobMember::Place>> JobMember::await_place(Duration at_most) {
  TAUT_TRY(const auto call, enter());
  if (place_) return place_;
  TAUT_TRY(const auto job, control_->await_place(at_most));
  if (!job) return std::optional<Place>();
  TAUT_TRY(connect(*job));
  place_ = {job->worker(), job->slot(), job->slots(),
            Clock(std::max(job->start_clock(), kFirstExternalClock))};
  return place_;
}

Result<void> JobMember::connect(const pb::WorkerJob& job) {
  clock_ = Clock(job.start_clock());
  definition_ = job.definition();
  is_replicated_ = job.replicated();
  TAUT_TRY(in_text_, to_tables(definition_));
  TAUT_TRY(const Policies policies, to_policies(definition_));
  schedule_ = policies.schedule();
  silence_limit_ = job.silence_limit_s() > 0 ? from_seconds(job.silence_limit_s()) : kSilence;
  ClientOptions options;
  TAUT_TRY(options.encoding.compression, to_compression(job.definition()));
  options.encoding.seed = job.definition().seed();
  options.encoding.slot = job.slot();
  options.job = JobId(job.job());
  options.worker = WorkerId(job.worker());
  options.incarnation = Incarnation(job.incarnation());
  options.job_hash = job_hash(job.definition());
  for (const pb::ShardInfo& shard : job.shards()) {
    options.shards.push_back({ShardId(shard.shard()), shard.address(), shard.term()});
  }
  options.replicated = job.replicated();
  options.max_kept = Bytes(job.kept_bytes());
  options.load = control_->load();
  if (options_.shared_memory) {
    if (auto arena = SharedArena::create(Bytes(0))) {
      options.shared_memory = std::move(arena.value());
    } else {
      log::warn("payloads are sent as bytes, even on one machine: {}", arena.error().message);
    }
  }
  auto endpoint = context_->make_endpoint();
  endpoint->use_token(to_token(job.secret()));
  client_ = std::make_unique<Client>(std::move(endpoint), options);
  control_->use(client_.get());
  return ok();
}

JobMember::~JobMember() {
  cancel();
  { const std::scoped_lock last_call(calls_); }
  control_->use(nullptr);
  for (Table& table : tables_) table.gradient = Buffer();
  client_.reset();
  control_.reset();
}

Result<std::unique_lock<std::mutex>> JobMember::enter(Call call) {
  std::unique_lock lock(calls_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return invalid(
        "another thread is in a call of this member, which serves one at a time; give each thread "
        "its own member, or let both take a lock");
  }
  if (leaving_ == Leaving::kDone) {
    return make_error(ErrorCode::kClosed, "this member has left its job; join again");
  }
  if (leaving_ != Leaving::kNot) {
    // The end of the job is not an error of a member that leaves it.
    if (call == Call::kLeave) return lock;
    return make_error(ErrorCode::kClosed, "this member leaves its job; wait until it has");
  }
  if (auto end = control_->end()) return *end;
  return lock;
}

Result<void> JobMember::check_place() const {
  if (place_) return ok();
  return invalid("this member has no place in its job yet; wait for it first");
}

Result<pb::Job> JobMember::definition() {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(check_place());
  return definition_;
}

Result<const TableSpec*> JobMember::table_in_text(std::size_t index) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(check_place());
  if (index < in_text_.size()) return &in_text_[index];
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("table {} is not in the job's text, which names {}", index, in_text_.size()));
}

Error JobMember::explain(const Error& error) const {
  if (auto end = control_->end()) return *end;
  return error;
}

Result<TableId> JobMember::add_table(const std::string& name, std::vector<std::int64_t> shape,
                                     TableKind kind, std::span<float> values,
                                     std::shared_ptr<void> owner) {
  TAUT_TRY(const auto call, enter());
  if (is_requested_) {
    return invalid(fmt::format(
        "table \"{}\": the tables are open already; add all of them before they are used", name));
  }
  if (name.empty()) return invalid("a table needs a name");
  if (std::ranges::any_of(tables_, [&](const Table& one) { return one.spec.name == name; })) {
    return invalid(fmt::format("table \"{}\" was added before; choose another name", name));
  }
  if (tables_.size() >= kMaxNamedTables) {
    return invalid(fmt::format("table \"{}\": there are {} already, which is the limit", name,
                               kMaxNamedTables));
  }
  const auto count = count_of(shape);
  if (!count) return invalid(fmt::format("table \"{}\" {}", name, count.error().message));
  if (count.value() != values.size()) {
    return invalid(fmt::format("table \"{}\": its shape [{}] has {} values, but {} were given",
                               name, fmt::join(shape, ", "), count.value(), values.size()));
  }
  Table table;
  const TableId number(static_cast<std::uint32_t>(tables_.size()));
  table.spec.id = number;
  table.spec.name = name;
  table.spec.shape = std::move(shape);
  table.spec.kind = kind;
  table.spec.filler = {math::Filler::Kind::kConstant, 0, 0};
  table.values = values;
  table.owner = std::move(owner);
  if (place_) {
    TAUT_TRY(match(in_text_, table.spec));
  }
  tables_.push_back(std::move(table));
  return number;
}

Result<bool> JobMember::open(Duration at_most) {
  TAUT_TRY(const auto call, enter());
  if (is_open_) return true;
  if (!is_requested_) {
    TAUT_TRY(request_tables());
  }
  const TimePoint begin = steady_now();
  if (!is_seeded_) {
    const auto opened = client_->await_open(silence_limit_, at_most);
    if (!opened) return explain(opened.error());
    if (!opened.value()) return false;
    read_or_seed();
  }
  for (Table& table : tables_) {
    if (table.is_pulled) continue;
    TAUT_TRY(const auto read, await(table, rest_of(at_most, begin)));
    if (!read) return false;
  }
  is_open_ = true;
  waited_ = Duration(0);
  clock_begun_ = steady_now();
  figures_.clock = clock_;
  figures_.begun = figures_.ended = *clock_begun_;
  control_->report(figures_);
  return true;
}

Result<void> JobMember::request_tables() {
  TAUT_TRY(check_place());
  if (tables_.empty()) return invalid("there is no table to open; add one first");
  std::vector<TableSpec> specs;
  for (Table& table : tables_) {
    TAUT_TRY(match(in_text_, table.spec));
    specs.push_back(table.spec);
  }
  TAUT_TRY(specs, in_order(in_text_, std::move(specs)));
  schedule(specs);
  client_->begin_open(std::move(specs));
  is_requested_ = true;
  return ok();
}

/// Tables meet as the servers compute it, from their order there.
void JobMember::schedule(const std::vector<TableSpec>& in_order) {
  const std::vector<std::uint32_t> fragments = fragments_of(in_order, schedule_.fragments);
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    const auto table =
        std::ranges::find(tables_, in_order[i].id, [](const Table& one) { return one.spec.id; });
    table->schedule = schedule_.of_fragment(fragments[i]);
  }
}

/// Pushes the initial values if this member brings them, and reads them otherwise.
void JobMember::read_or_seed() {
  const bool seeds = clock_ < place_->start;
  for (Table& table : tables_) {
    if (seeds) {
      const Buffer initial = client_->gradient_buffer(table.spec.id);
      std::ranges::copy(table.values, initial.floats().begin());
      client_->push_and_read(table.spec.id, clock_, initial, table.values);
    } else {
      client_->read(table.spec.id, clock_, table.values);
    }
    table.clock = table.schedule.first_from(place_->start);
    table.reads = place_->start;
  }
  clock_ = place_->start;
  is_seeded_ = true;
}

Result<void> JobMember::set_multiples(TableId id, float rate, float decay) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(check_place());
  if (id.value() >= tables_.size()) return unknown(id);
  TableSpec& spec = tables_[id.value()].spec;
  if (is_requested_) {
    return invalid(
        fmt::format("table \"{}\" is open already; name its multiples before that", spec.name));
  }
  if (spec.kind != TableKind::kTrained) {
    return invalid(fmt::format("table \"{}\" is averaged, without a rate to multiply", spec.name));
  }
  for (const auto& [name, multiple] :
       {std::pair("lr_mult", rate), std::pair("decay_mult", decay)}) {
    if (std::isfinite(multiple) && multiple >= 0) continue;
    return invalid(fmt::format("table \"{}\": {} must be a finite number of at least 0, is {}",
                               spec.name, name, multiple));
  }
  if (!in_text_.empty() && (spec.lr_mult != rate || spec.decay_mult != decay)) {
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("table \"{}\" has lr_mult {} and decay_mult {} in the job's text, "
                    "but this member's are {} and {}",
                    spec.name, spec.lr_mult, spec.decay_mult, rate, decay));
  }
  spec.lr_mult = rate;
  spec.decay_mult = decay;
  return ok();
}

Result<JobMember::TableView> JobMember::table(TableId table) {
  TAUT_TRY(const auto call, enter());
  if (table.value() >= tables_.size()) return unknown(table);
  const Table& one = tables_[table.value()];
  return TableView{one.spec.name, one.spec.shape, one.values, one.owner};
}

Error JobMember::unknown(TableId table) const {
  return invalid(
      fmt::format("table {} does not exist; there are {}", table.value(), tables_.size()));
}

Result<JobMember::Table*> JobMember::find(TableId table) {
  if (!is_open_) return invalid("the tables are not open yet");
  if (table.value() < tables_.size()) return &tables_[table.value()];
  return unknown(table);
}

Result<bool> JobMember::leave(bool finished, Duration at_most) {
  TAUT_TRY(const auto call, enter(Call::kLeave));
  const TimePoint begin = steady_now();
  if (leaving_ == Leaving::kNot) {
    for (const Table& table : tables_) {
      if (!is_open_ || table.reads != clock_.next()) continue;
      return invalid(fmt::format(
          "table \"{}\" was pushed at clock {}, which has not ended; end it before you leave",
          table.spec.name, clock_.value()));
    }
    leaving_ = Leaving::kFlushes;
  }
  if (leaving_ == Leaving::kFlushes) {
    const Result<bool> flushed = is_open_ ? client_->flush_for(silence_limit_, at_most) : true;
    if (!flushed) leaving_ = Leaving::kNot;
    if (!flushed) return explain(flushed.error());
    if (!flushed.value()) return false;
    control_->begin_leave(finished, kLeaveWait);
    leaving_ = Leaving::kReported;
  }
  Result<bool> left = control_->await_left(rest_of(at_most, begin));
  if (!left || left.value()) leaving_ = Leaving::kDone;
  return left;
}

Result<void> JobMember::fail(const std::string& reason) {
  return control_->fail(reason.empty() ? "its program failed" : reason);
}

void JobMember::cancel() {
  control_->cancel();
}

Result<StalenessHistogram> JobMember::staleness() {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(check_place());
  return client_->staleness();
}

}  // namespace taut
