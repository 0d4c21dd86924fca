#include "server/checkpoints/resume_images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "proto/config/settle_averaging.hpp"
#include "proto/config/settle_policies.hpp"

namespace taut::server {
namespace {

/// The member of the new job that continues the work of an old one: they have the same share of the
/// data. With another number of shares there is none, and all start at the checkpoint's clock.
std::map<WorkerId, std::optional<std::uint32_t>> successors(const pb::ServerJob& job,
                                                            const pb::CheckpointManifest& saved,
                                                            std::uint32_t slots) {
  std::map<WorkerId, std::optional<std::uint32_t>> takes_up;
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

}  // namespace

Result<std::vector<ShardImages>> read_shard_images(const pb::ServerJob& job, std::size_t shards) {
  return read_shard_images(job, shards, [](const pb::ServerJob& resumed) {
    return CheckpointReader::open_to_resume(resumed.resume().folder());
  });
}

Result<std::vector<ShardImages>> read_shard_images(const pb::ServerJob& job, std::size_t shards,
                                                   const OpenSaved& open) {
  TAUT_TRY(const CheckpointReader saved, open(job));
  if (saved.manifest().clock() != job.resume().clock()) {
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("{}: is of clock {} now, it was of clock {} when the job started",
                    saved.folder().string(), saved.manifest().clock(), job.resume().clock()));
  }
  // If workers average, the solver's state is their own.
  TAUT_TRY(const math::UpdateRule rule, to_shard_rule(job.definition()));
  TAUT_TRY(const Policies policies, to_policies(job.definition()));
  const auto of_policies = static_cast<int>(policies.keeps().states);
  std::vector<ShardId> all;
  for (const pb::ShardInfo& shard : job.shards()) all.emplace_back(shard.shard());
  std::uint32_t slots = 0;
  for (const pb::Member& member : job.members()) slots = std::max(slots, member.slot() + 1);
  const auto takes_up = successors(job, saved.manifest(), slots);

  std::vector<ShardImages> images(shards);
  for (ShardImages& one : images) one.tables = saved.tables();
  BufferPool pool(Bytes(0));
  const SliceLayout layout(saved.tables(), all);
  for (const Slice& place : layout.slices()) {
    const std::uint32_t shard = place.shard.value() - job.first_shard();
    if (place.shard.value() < job.first_shard() || shard >= shards) continue;
    const TableSpec& table = saved.tables()[place.table.value()];
    const std::uint32_t states = saved.states_of(place.table);
    const int state_count =
        table.kind == TableKind::kTrained ? rule.state_count() + of_policies : 0;
    if (states != static_cast<std::uint32_t>(state_count)) {
      return make_error(
          ErrorCode::kMismatch,
          fmt::format("{}: table \"{}\" has {} numbers with each value, and solver type {} keeps "
                      "{}: resume with the type ({}) and the delay compensation that wrote it",
                      saved.folder().string(), table.name, states,
                      job.definition().solver_param().type(), state_count,
                      saved.manifest().definition().solver_param().type()));
    }
    const auto from = saved.slices_of(place.table, place.offset, place.count);
    SliceImage image;
    image.place = place;
    image.version = saved.clock();
    image.applications = from.front()->applications();
    for (const auto& [worker, before] : takes_up) {
      image.done[worker] = before ? done_of(from, *before, saved.clock()) : saved.clock();
    }
    image.values = pool.acquire(place.count * sizeof(float));
    TAUT_TRY(saved.read_values(place.table, place.offset, image.values.floats()));
    for (std::uint32_t i = 0; i < states; ++i) {
      image.states.push_back(pool.acquire(place.count * sizeof(float)));
      TAUT_TRY(saved.read_state(place.table, i, place.offset, image.states.back().floats()));
    }
    images[shard].slices.emplace(layout.index_of(place.table, place.slice), std::move(image));
  }
  return images;
}

}  // namespace taut::server
