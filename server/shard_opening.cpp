// How a shard opens the tables that its workers name.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/math/update_rules.hpp"
#include "common/ssp/fragments.hpp"
#include "common/ssp/policies/averaging.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/job_tables.hpp"
#include "proto/message_limits.hpp"
#include "server/replication/image_parts.hpp"
#include "server/shard.hpp"
#include "server/tables/table_difference.hpp"

namespace taut::server {
namespace {

// The most messages that wait for another worker to list the tables, and the most slices that each
// may report on.
constexpr std::size_t kMaxWaiting = 4096;
constexpr int kMaxWaitingSlices = 4096;

/// Errors    invalid: a table that is impossible or not listed at its number; no tables
Result<std::vector<TableSpec>> listed_tables(const pb::OpenTables& requested) {
  std::vector<TableSpec> tables;
  for (const pb::TableSpec& wire : requested.tables()) {
    TAUT_TRY(TableSpec table, from_wire(wire));
    if (wire.table() != tables.size()) {
      return invalid(fmt::format("table {} is listed at place {}", wire.table(), tables.size()));
    }
    table.id = TableId(wire.table());
    tables.push_back(std::move(table));
  }
  if (tables.empty()) return invalid("no tables are named");
  return tables;
}

/// Errors    invalid: a table that is kept by rows in a job that cannot have one
Result<void> check_rows(const std::vector<TableSpec>& tables, const JobView& job) {
  for (const TableSpec& table : tables) {
    if (!table.rows || job.replication_interval == 0) continue;
    TAUT_TRY(check_bucket_bytes(table, static_cast<std::size_t>(job.rule.state_count())));
  }
  const auto by_rows =
      std::ranges::find_if(tables, [](const TableSpec& table) { return table.rows.has_value(); });
  if (by_rows == tables.end()) return ok();
  const auto refuse = [&](const char* what) {
    return invalid(fmt::format("table \"{}\" is kept by rows, which {}", by_rows->name, what));
  };
  if (math::needs_table_norms(job.rule.kind)) {
    return refuse("a rule that is scaled by a table's norms (LARS, LAMB) does not take");
  }
  const Policies::Keeps keeps = job.policies.keeps();
  if (keeps.values || keeps.states > 0) return refuse("delay_compensation does not take");
  if (job.policies.find<Averaging>() != nullptr) return refuse("averaging does not take");
  // A member skips to the version of what it has read, and need not have read all buckets.
  if (job.policies.backup_workers() > 0) return refuse("backup_workers does not take");
  if (job.is_seeded) return refuse("members cannot bring with its values");
  return ok();
}

DataMessage answer(const DataMessage& to, std::string reason, bool name_tables = false) {
  pb::OpenTablesReply reply;
  reply.set_accepted(reason.empty() && !name_tables);
  reply.set_reason(std::move(reason));
  reply.set_name_tables(name_tables);
  return DataMessage{to.job, {}, {}, std::move(reply)};
}

}  // namespace

/// A worker that is not a member, or not yet, gets no answer and sends the message again.
std::vector<Outgoing> Shard::take_opening(PeerId from, const DataMessage& message) {
  if (!may_open(message)) return {};
  if (auto within = check_limits(std::get<pb::OpenTables>(message.body)); !within) {
    return {{from, answer(message, within.error().message)}};
  }
  const auto job = jobs_.find(message.job);
  if (job != jobs_.end() && waits_for_list(job->second, from, message)) return {};
  std::vector<Outgoing> answers;
  open(from, message, answers);
  if (job == jobs_.end() || std::get<pb::OpenTables>(message.body).tables().empty()) return answers;
  // Answers those that waited: the tables are open, or another list is needed.
  job->second.is_list_requested = false;
  for (const auto& [peer, waiting] : std::exchange(job->second.wait_for_list, {})) {
    open(peer, waiting, answers);
  }
  return answers;
}

/// Whether the sender may name a job's tables: a member may. Once they are open, any sender may
/// compare its own with them.
bool Shard::may_open(const DataMessage& message) const {
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end() || !job->second.tables.empty()) return true;
  const Member* member = job->second.view->membership.find(message.worker);
  return member != nullptr && !member->fenced && member->incarnation == message.incarnation;
}

/// The first worker that names tables by their hash must list them, and the others wait for it: all
/// begin at once, and the list may be long. A worker that repeats its message must list them, too,
/// as the first one may be gone.
bool Shard::waits_for_list(JobState& job, PeerId from, const DataMessage& message) {
  const auto& requested = std::get<pb::OpenTables>(message.body);
  const bool may_wait =
      job.tables.empty() && requested.tables().empty() && !requested.tables_hash().empty() &&
      requested.sent_size() <= kMaxWaitingSlices && job.wait_for_list.size() < kMaxWaiting;
  if (!may_wait || !std::exchange(job.is_list_requested, true)) return false;
  return job.wait_for_list.emplace(from, message).second;
}

void Shard::open(PeerId from, const DataMessage& message, std::vector<Outgoing>& answers) {
  const auto& requested = std::get<pb::OpenTables>(message.body);
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end()) {
    answers.push_back(
        {from, answer(message, fmt::format("job {} is unknown", message.job.value()))});
  } else if (requested.tables().empty() && !requested.tables_hash().empty()) {
    const bool are_open = job->second.tables_hash == requested.tables_hash();
    answers.push_back({from, answer(message, {}, !are_open)});
  } else if (auto problem = open_listed(job->second, requested)) {
    answers.push_back({from, answer(message, *std::move(problem))});
  }
  const auto greeting = greeted_.find(from);
  if (job == jobs_.end() || job->second.tables.empty() || greeting == greeted_.end()) return;
  Outbox released(message.job);
  take_sent(job->second, greeting->second, message.worker, message.incarnation, requested,
            released);
  show_kept(job->second, released);
  for (Outgoing& out : released.take()) answers.push_back(std::move(out));
}

/// Why the tables cannot be opened; empty if they are open, now or since earlier; nullopt if this
/// process ends first: a refusal would fail the job, and the loss of a server need not.
std::optional<std::string> Shard::open_listed(JobState& job, const pb::OpenTables& requested) {
  auto listed = listed_tables(requested);
  if (!listed) return listed.error().message;
  std::vector<TableSpec>& tables = listed.value();
  if (const auto& named = job.view->tables; !named.empty()) {
    std::string differ = difference_from_text(named, tables);
    if (!differ.empty()) return differ;
  }
  if (!job.tables.empty()) return difference(job.tables, tables);
  if (!job.error.empty()) return job.error;
  if (!job.begin.tables.empty()) {
    std::string differ = resume_difference(job.begin.tables, tables);
    if (!differ.empty()) return differ;
  }
  std::string problem;
  bool is_stopping = false;
  const std::size_t images = job.begin.slices.size();
  try {
    Result<void> created = ok();
    // Checked before anything is cut, as even a list of slices is long.
    if (memory_) created = memory_->check(even_needs(tables, *job.view));
    if (created) created = create_slices(job, std::move(tables));
    if (!created) problem = created.error().message;
    is_stopping = !created && created.error().code == ErrorCode::kClosed;
    if (created) {
      follow_checkpoint(job);
      job.images.follow(*job.view, job.id, job.slices, dial_);
    }
  } catch (const std::bad_alloc&) {
    problem = fmt::format("shard {} has no memory for its part of the tables", id_.value());
  }
  if (!problem.empty()) {
    for (const auto& [index, slice] : job.slices) queues_.forget(*slice);
    job.slices.clear();
    job.tables.clear();
    job.tables_hash.clear();
    job.memory.clear();
    job.allowances.clear();
    job.capture.close_tables();
    if (job.begin.slices.size() != images) {
      // Another attempt would start the slices whose images are used up from initial values.
      job.error = problem;
      changed_.push_back(job.view->job);
    }
  }
  if (is_stopping) return std::nullopt;
  return problem;
}

Result<void> Shard::start_from_file(const JobState& job, const TableSpec& table,
                                    SliceState& slice) {
  const TensorPlace& origin = *table.origin;
  if (initial_ == nullptr ||
      std::ranges::find(job.view->weights, origin.file) == job.view->weights.end()) {
    return invalid(fmt::format("table \"{}\" starts from {}, which the job's weights do not name",
                               table.name, origin.file));
  }
  return initial_->read(origin, slice.place().offset, slice.initial_values());
}

std::shared_ptr<RowAllowance> Shard::allowance_of(JobState& job, const TableSpec& table,
                                                  const Slice& place) {
  if (!table.rows) return nullptr;
  std::shared_ptr<RowAllowance>& allowance = job.allowances[{place.shard, place.table}];
  if (allowance) return allowance;
  const auto buckets =
      std::ranges::count(job.layout.slices_of(table.id), place.shard, &Slice::shard);
  allowance = std::make_shared<RowAllowance>(table, static_cast<std::uint64_t>(buckets),
                                             job.view->max_members());
  return allowance;
}

std::unique_ptr<SliceState> Shard::make_slice(JobState& job, const TableSpec& table,
                                              const Slice& place, const SliceImage* begin) {
  const PushSchedule schedule =
      job.view->policies.schedule().of_fragment(job.fragments[table.id.value()]);
  auto slice = std::make_unique<SliceState>(table, place, *job.view, pool_, schedule, begin,
                                            &states_of(*job.view), allowance_of(job, table, place));
  slice->limit_reads(job.bound.limit());
  return slice;
}

Result<void> Shard::create_slices(JobState& job, std::vector<TableSpec> tables) {
  TAUT_TRY(check_rows(tables, *job.view));
  job.layout = SliceLayout(tables, job.view->shards, slice_elements_);
  job.fragments = fragments_of(tables, job.view->policies.schedule().fragments);
  std::vector<TableNeed> needs;
  for (const auto& [shard, term] : job.served) {
    const auto more = needs_at(shard, job.layout, tables, *job.view);
    needs.insert(needs.end(), more.begin(), more.end());
  }
  if (memory_) {
    TAUT_TRY(TableMemory::Share share, memory_->take(needs));
    job.memory.push_back(std::move(share));
    yield_spares();
  }
  for (const Slice& slice : job.layout.slices()) {
    if (!job.served.contains(slice.shard)) continue;
    const TableSpec& table = tables[slice.table.value()];
    const std::size_t index = job.layout.index_of(slice.table, slice.slice);
    const auto image = job.begin.slices.find(index);
    const SliceImage* begin = image == job.begin.slices.end() ? nullptr : &image->second;
    if (begin == nullptr && !job.begin.tables.empty()) {
      return invalid(
          fmt::format("shard {} was given nothing that was saved of table \"{}\" slice {}",
                      id_.value(), table.name, slice.slice.value()));
    }
    // Made first: if there is no memory for it, no empty entry is left in its place.
    auto slice_state = make_slice(job, table, slice, begin);
    queues_.add(*slice_state);
    const auto& state = job.slices[index] = std::move(slice_state);
    if (begin != nullptr) {
      // One after the other, so that memory is not needed for all slices twice.
      job.begin.slices.erase(image);
    } else if (table.origin) {
      // Only without a saved state, which replaces these values.
      TAUT_TRY(start_from_file(job, table, *state));
    }
  }
  job.begin = {};
  job.tables = std::move(tables);
  job.tables_hash = tables_hash(job.tables);
  OpenedTables& opened = opened_.emplace_back(OpenedTables{job.view->job});
  for (const TableNeed& need : needs) {
    opened.bytes += need.bytes;
    opened.compensation += need.compensation;
  }
  return ok();
}

}  // namespace taut::server
