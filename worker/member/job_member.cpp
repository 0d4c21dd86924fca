#include "worker/member/job_member.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "common/log.hpp"
#include "common/math/filler.hpp"
#include "common/net/shared_arena.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/job_tables.hpp"
#include "proto/config/settle_compression.hpp"
#include "worker/member/named_tables.hpp"

namespace taut {
namespace {

constexpr Duration kSilence{60'000'000};    // where the coordinator names none
constexpr Duration kLeaveWait{15'000'000};  // for the coordinator to confirm
constexpr std::uint64_t kMaxTables = 65536;

std::uint64_t elements(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

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
  TAUT_TRY(in_text_, to_tables(job.definition()));
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
  if (options_.shared_memory) {
    if (auto arena = SharedArena::create(Bytes(0))) {
      options.shared_memory = std::move(arena.value());
    } else {
      log::warn("payloads are sent as bytes, even on one machine: {}", arena.error().message);
    }
  }
  client_ = std::make_unique<Client>(context_->make_endpoint(), options);
  control_->use(client_.get());
  return ok();
}

JobMember::~JobMember() {
  control_->use(nullptr);
  for (Table& table : tables_) table.gradient = Buffer();
  client_.reset();
  control_.reset();
}

Result<std::unique_lock<std::mutex>> JobMember::enter() {
  std::unique_lock lock(calls_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return invalid(
        "another thread is in a call of this member, which serves one at a time; give each thread "
        "a member of its own, or a lock to both");
  }
  if (has_left_) return make_error(ErrorCode::kClosed, "this member has left its job; join again");
  if (auto end = control_->end()) return *end;
  return lock;
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
  if (tables_.size() >= kMaxTables) {
    return invalid(
        fmt::format("table \"{}\": there are {} already, which is the limit", name, kMaxTables));
  }
  const auto bad = std::ranges::find_if(shape, [](std::int64_t extent) { return extent < 1; });
  if (bad != shape.end()) {
    return invalid(
        fmt::format("table \"{}\": an extent is {}; each must be at least 1", name, *bad));
  }
  if (elements(shape) != values.size()) {
    return invalid(fmt::format("table \"{}\": its shape [{}] has {} values, but {} were given",
                               name, fmt::join(shape, ", "), elements(shape), values.size()));
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
  for (Table& table : tables_) {
    if (table.is_pulled) continue;
    const Duration left = std::max(at_most - (steady_now() - begin), Duration(1));
    TAUT_TRY(const auto read, await(table, at_most == Duration::max() ? at_most : left));
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
  if (!place_) return invalid("this member has no place in its job yet; wait for it first");
  if (tables_.empty()) return invalid("there is no table to open; add one first");
  std::vector<TableSpec> specs;
  for (Table& table : tables_) {
    TAUT_TRY(match(in_text_, table.spec));
    specs.push_back(table.spec);
  }
  TAUT_TRY(specs, in_order(in_text_, std::move(specs)));
  if (auto opened = client_->open(std::move(specs), silence_limit_); !opened) {
    return explain(opened.error());
  }
  is_requested_ = true;
  const bool seeds = clock_ < place_->start;
  for (Table& table : tables_) {
    if (seeds) {
      const Buffer initial = client_->gradient_buffer(table.spec.id);
      std::ranges::copy(table.values, initial.floats().begin());
      client_->push_and_read(table.spec.id, clock_, initial, table.values);
    } else {
      client_->read(table.spec.id, clock_, table.values);
    }
    table.clock = place_->start;
  }
  clock_ = place_->start;
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

Result<std::span<float>> JobMember::gradient(TableId id) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  if (table->gradient.size() == 0) table->gradient = client_->gradient_buffer(table->spec.id);
  return table->gradient.floats().first(table->values.size());
}

Result<void> JobMember::push(TableId id, std::span<const float> gradient) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  TAUT_TRY(check_push(*table, gradient.size()));
  copy_and_send(*table, gradient);
  return ok();
}

Result<void> JobMember::push_lent(TableId id, const Frame& gradient) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  const std::span floats(reinterpret_cast<const float*>(gradient.bytes().data()),
                         gradient.size() / sizeof(float));
  TAUT_TRY(check_push(*table, floats.size()));
  if (client_->shares_memory() || is_written(gradient.bytes())) {
    copy_and_send(*table, floats);
  } else {
    client_->push_and_read(table->spec.id, table->clock, gradient, table->values);
    sent(*table);
  }
  return ok();
}

/// Whether a read may write to this memory while it is sent.
bool JobMember::is_written(std::span<const std::byte> memory) const {
  const std::less<const std::byte*> before;
  return std::ranges::any_of(tables_, [&](const Table& table) {
    const auto values = std::as_bytes(table.values);
    return before(memory.data(), values.data() + values.size()) &&
           before(values.data(), memory.data() + memory.size());
  });
}

Result<void> JobMember::check_push(const Table& table, std::size_t count) const {
  if (count != table.values.size()) {
    return invalid(fmt::format("table \"{}\" has {} values, but its update has {}", table.spec.name,
                               table.values.size(), count));
  }
  if (table.clock > clock_) {
    return invalid(fmt::format(
        "table \"{}\" was pushed at clock {} before; end the clock before it is pushed again",
        table.spec.name, clock_.value()));
  }
  return ok();
}

void JobMember::copy_and_send(Table& table, std::span<const float> gradient) {
  Buffer update = std::exchange(table.gradient, Buffer());
  if (update.size() == 0) update = client_->gradient_buffer(table.spec.id);
  if (gradient.data() != update.floats().data()) {
    std::ranges::copy(gradient, update.floats().begin());
  }
  client_->push_and_read(table.spec.id, table.clock, update, table.values);
  sent(table);
}

void JobMember::sent(Table& table) {
  table.clock = table.clock.next();
  table.is_pulled = false;
}

Result<std::optional<ReadResult>> JobMember::pull(TableId id, Duration at_most) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  if (table->is_pulled) return std::optional(table->read);
  return await(*table, at_most);
}

Result<std::optional<ReadResult>> JobMember::await(Table& table, Duration at_most) {
  const TimePoint begin = steady_now();
  auto read = client_->wait(table.spec.id, table.clock, silence_limit_, at_most);
  waited_ += steady_now() - begin;
  if (!read) return explain(read.error());
  if (!read.value()) return read;
  table.is_pulled = true;
  table.read = *read.value();
  return read;
}

Result<ReadResult> JobMember::snapshot(TableId id, std::span<float> into) {
  TAUT_TRY(const auto call, enter());
  TAUT_TRY(Table* const table, find(id));
  if (into.size() != table->values.size()) {
    return invalid(fmt::format("table \"{}\" has {} values, but there is room for {}",
                               table->spec.name, table->values.size(), into.size()));
  }
  auto read = client_->snapshot(table->spec.id, into, silence_limit_);
  if (!read) return explain(read.error());
  return read;
}

Result<void> JobMember::check_pushed() const {
  for (const Table& table : tables_) {
    if (table.clock > clock_ && table.is_pulled) continue;
    return invalid(fmt::format("table \"{}\" was not {} at clock {}; each table is {} once a clock",
                               table.spec.name, table.clock > clock_ ? "pulled" : "pushed",
                               clock_.value(), table.clock > clock_ ? "pulled" : "pushed"));
  }
  return ok();
}

Result<MemberOrders> JobMember::end_clock(const ClockReport& report) {
  TAUT_TRY(const auto call, enter());
  if (!is_open_) return invalid("the tables are not open yet");
  TAUT_TRY(check_pushed());
  clock_ = clock_.next();
  const TimePoint now = steady_now();
  const Duration length = now - *clock_begun_;
  clock_begun_ = now;
  figures_.clock = clock_;
  if (report.loss) figures_.loss = report.loss;
  figures_.items += report.items;
  figures_.waited += waited_;
  figures_.computed += length - std::min(length, waited_);
  figures_.ended = now;
  figures_.staleness = client_->staleness();
  figures_.traffic = client_->traffic();
  waited_ = Duration(0);
  control_->report(figures_);
  return control_->orders();
}

Result<void> JobMember::leave(bool finished) {
  TAUT_TRY(const auto call, enter());
  if (is_open_) {
    for (const Table& table : tables_) {
      if (table.clock == clock_) continue;
      return invalid(fmt::format(
          "table \"{}\" was pushed at clock {}, which has not ended; end it before you leave",
          table.spec.name, clock_.value()));
    }
    if (auto flushed = client_->flush(silence_limit_); !flushed) return explain(flushed.error());
  }
  has_left_ = true;
  return control_->leave(finished, "", kLeaveWait);
}

void JobMember::fail(const std::string& reason) {
  const auto call = enter();
  if (!call) return;
  has_left_ = true;
  (void)control_->leave(false, reason.empty() ? "its program failed" : reason, kLeaveWait);
}

const StalenessHistogram& JobMember::staleness() const {
  return client_->staleness();
}

Client::Traffic JobMember::traffic() const {
  return client_->traffic();
}

}  // namespace taut
