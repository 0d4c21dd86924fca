#include "server/checkpoints/resume_images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "proto/config/net_state.hpp"
#include "proto/config/settle_averaging.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "server/checkpoints/row_tensors.hpp"
#include "server/job_view.hpp"

namespace taut::server {
namespace {

/// For each member of a resumed job, the old member whose work it continues, if any.
using Successors = std::map<WorkerId, std::optional<std::uint32_t>>;

/// Finds the members of the new job that continue the work of old ones: those with the same share
/// of the data. If the number of shares differs there are none, and all start at the checkpoint's
/// clock.
Successors successors(const pb::ServerJob& job, const pb::CheckpointManifest& saved,
                      std::uint32_t slots) {
  Successors takes_up;
  // In BSP a clock is applied when all have pushed it, so all must start at the same one.
  const bool aggregates = job.modes(0).mode() == pb::ModeChange::AGGREGATE;
  for (const pb::Member& member : job.members()) {
    if (member.join_clock() != saved.clock()) continue;
    auto& from = takes_up[WorkerId(member.worker())];
    if (aggregates || slots != saved.slots()) continue;
    for (const pb::CheckpointMember& before : saved.members()) {
      const bool existed =
          before.join_clock() <= saved.clock() && saved.clock() < before.leave_clock();
      if (existed && before.slot() == member.slot()) from = before.worker();
    }
  }
  return takes_up;
}

/// The lowest clock that any of the saved slices expects from a worker.
Clock done_of(const std::vector<const pb::CheckpointSlice*>& slices, std::uint32_t worker,
              Clock otherwise) {
  Clock lowest = Clock::never();
  for (const pb::CheckpointSlice* slice : slices) {
    for (const pb::CheckpointDone& done : slice->done()) {
      if (done.worker() == worker) lowest = std::min(lowest, Clock(done.done()));
    }
  }
  return lowest == Clock::never() ? otherwise : std::max(lowest, otherwise);
}

/// Whether each table has as many states as the job's rule and policies keep.
/// Errors    mismatch: the first that has not
Result<void> check_states(const pb::ServerJob& job, const CheckpointReader& saved) {
  // If workers average, the solver's state is their own.
  TAUT_TRY(const math::UpdateRule rule, to_shard_rule(job.definition()));
  TAUT_TRY(const Policies policies, to_policies(job.definition()));
  const auto kept = static_cast<std::uint32_t>(rule.state_count()) +
                    static_cast<std::uint32_t>(policies.keeps().states);
  for (const TableSpec& table : saved.tables()) {
    const std::uint32_t states = saved.states_of(table.id);
    const std::uint32_t required = table.kind == TableKind::kTrained ? kept : 0;
    if (states == required) continue;
    if (workers_apply_momentum(job.definition()) !=
        workers_apply_momentum(saved.manifest().definition())) {
      return make_error(
          ErrorCode::kMismatch,
          fmt::format("{}: table \"{}\" has {} numbers with each value, and the job keeps {}: with "
                      "compression {{ push {{ scheme: DGC }} }} workers keep the momentum, else "
                      "servers do; resume as it was written",
                      saved.folder().string(), table.name, states, required));
    }
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("{}: table \"{}\" has {} numbers with each value, and solver type {} keeps "
                    "{}: resume with the type ({}) and the delay compensation that wrote it",
                    saved.folder().string(), table.name, states,
                    job.definition().solver_param().type(), required,
                    saved.manifest().definition().solver_param().type()));
  }
  return ok();
}

/// The saved tables as the job keeps them. For tables by rows, `evict` may have changed and, with
/// the most rows that a bucket keeps, the distribution of all slices over the shards.
std::vector<TableSpec> tables_of(const pb::Job& job, const CheckpointReader& saved) {
  std::vector<TableSpec> tables = saved.tables();
  for (TableSpec& table : tables) {
    const pb::LayerParameter* const layer = layer_of_rows(job, table.name);
    if (!table.rows || layer == nullptr) continue;
    table.rows->max_rows = layer->embed_param().evict().max_rows();
  }
  return tables;
}

/// Checks that a server's part of the saved tables has room.
/// Errors    invalid: the first table that has none
Result<void> check_memory(const pb::ServerJob& job, std::size_t shards, const SliceLayout& layout,
                          std::vector<TableSpec> tables, const TableMemory& memory) {
  TAUT_TRY(const auto view, make_job_view(job));
  for (TableSpec& table : tables) {
    // How many rows a batch names is not saved: this is the minimum.
    if (table.rows) table.rows->clock_rows = 1;
  }
  std::vector<TableNeed> needs;
  for (std::size_t i = 0; i < shards; ++i) {
    const ShardId shard(job.first_shard() + static_cast<std::uint32_t>(i));
    std::ranges::move(needs_at(shard, layout, tables, *view), std::back_inserter(needs));
  }
  return memory.check(needs);
}

/// A slice as it was saved, for a job in which these members continue earlier work.
Result<SliceImage> read_image(const CheckpointReader& saved, const Slice& place,
                              const Successors& takes_up, BufferPool& pool) {
  const TableSpec& table = saved.tables()[place.table.value()];
  const auto from = saved.slices_of(place.table, place.offset, table.rows ? 1 : place.count);
  SliceImage image;
  image.place = place;
  image.version = saved.clock();
  image.applications = from.front()->applications();
  for (const auto& [worker, before] : takes_up) {
    image.done[worker] = before ? done_of(from, *before, saved.clock()) : saved.clock();
  }
  if (table.rows) {
    TAUT_TRY(image.rows, read_rows(saved, table, static_cast<std::uint32_t>(place.offset)));
    return image;
  }
  image.values = pool.acquire(place.count * sizeof(float));
  TAUT_TRY(saved.read_values(place.table, place.offset, image.values.floats()));
  for (std::uint32_t i = 0; i < saved.states_of(place.table); ++i) {
    image.states.push_back(pool.acquire(place.count * sizeof(float)));
    TAUT_TRY(saved.read_state(place.table, i, place.offset, image.states.back().floats()));
  }
  return image;
}

}  // namespace

Result<std::vector<ShardImages>> read_shard_images(const pb::ServerJob& job, std::size_t shards) {
  return read_shard_images(job, shards, [](const pb::ServerJob& resumed) {
    return CheckpointReader::open_to_resume(resumed.resume().folder());
  });
}

Result<std::vector<ShardImages>> read_shard_images(const pb::ServerJob& job, std::size_t shards,
                                                   const OpenSaved& open, const TableMemory* memory,
                                                   const std::atomic<bool>* stop) {
  TAUT_TRY(const CheckpointReader saved, open(job));
  if (saved.manifest().clock() != job.resume().clock()) {
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("{}: is of clock {} now, it was of clock {} when the job started",
                    saved.folder().string(), saved.manifest().clock(), job.resume().clock()));
  }
  TAUT_TRY(check_states(job, saved));
  std::vector<ShardId> all;
  for (const pb::ShardInfo& shard : job.shards()) all.emplace_back(shard.shard());
  std::uint32_t slots = 0;
  for (const pb::Member& member : job.members()) slots = std::max(slots, member.slot() + 1);
  const Successors takes_up = successors(job, saved.manifest(), slots);

  const std::vector<TableSpec> tables = tables_of(job.definition(), saved);
  const SliceLayout layout(tables, all);
  if (memory != nullptr) {
    TAUT_TRY(check_memory(job, shards, layout, tables, *memory));
  }
  std::vector<ShardImages> images(shards);
  for (ShardImages& one : images) one.tables = saved.tables();
  BufferPool pool(Bytes(0));
  for (const Slice& place : layout.slices()) {
    const std::uint32_t shard = place.shard.value() - job.first_shard();
    if (place.shard.value() < job.first_shard() || shard >= shards) continue;
    if (stop != nullptr && *stop) {
      return make_error(ErrorCode::kClosed, saved.folder().string() + ": the server ends");
    }
    TAUT_TRY(SliceImage image, read_image(saved, place, takes_up, pool));
    images[shard].slices.emplace(layout.index_of(place.table, place.slice), std::move(image));
  }
  return images;
}

}  // namespace taut::server
