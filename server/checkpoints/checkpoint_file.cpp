#include "server/checkpoints/checkpoint_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "common/files/allowed_folders.hpp"
#include "common/files/file_stream.hpp"
#include "common/files/safetensors.hpp"
#include "common/files/sha256.hpp"
#include "common/math/finite.hpp"
#include "common/ssp/policies/averaging.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_policies.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/checkpoint_reader.hpp"

namespace taut::server {
namespace fs = std::filesystem;
namespace {

pb::CheckpointSlice describe(const SliceImage& image) {
  pb::CheckpointSlice slice;
  slice.set_table(image.place.table.value());
  slice.set_offset(image.place.offset);
  slice.set_count(image.place.count);
  slice.set_version(image.version.value());
  slice.set_applications(image.applications);
  slice.set_states(static_cast<std::uint32_t>(image.states.size()));
  for (const auto& [worker, done] : image.done) {
    pb::CheckpointDone& one = *slice.add_done();
    one.set_worker(worker.value());
    one.set_done(done.value());
  }
  return slice;
}

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

Result<pb::CheckpointFile> write_shard_file(ShardCapture capture, const std::atomic<bool>& stop) {
  const fs::path folder = capture.order.folder;
  const fs::path path = folder / shard_file_name(capture.shard.value());
  TAUT_TRY(check_place(folder));
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot be made: {}", folder.string(), failed.message()));
  }
  pb::CheckpointSlices slices;
  std::vector<safetensors::TensorSpec> tensors;
  for (const SliceImage& image : capture.slices) {
    const pb::CheckpointSlice& slice = *slices.add_slices() = describe(image);
    const std::string& table = capture.tables[slice.table()].name;
    tensors.push_back({slice_tensor(table, slice), {slice.count()}});
    for (std::uint32_t i = 0; i < slice.states(); ++i) {
      tensors.push_back({state_tensor(table, slice, i), {slice.count()}});
    }
  }
  TAUT_TRY(const safetensors::EncodedHead head,
           safetensors::encode_head(tensors, {{kSlicesNote, to_text(slices)}}, path.string()));
  TAUT_TRY(const auto out, FileStream::create(path, head.file_bytes()));
  Sha256 digest;
  const auto add = [&](std::span<const std::byte> bytes) -> Result<void> {
    digest.update(bytes);
    return out->append(bytes);
  };
  TAUT_TRY(add(std::as_bytes(std::span(head.bytes))));
  for (SliceImage& image : capture.slices) {
    if (stop) return make_error(ErrorCode::kClosed, path.string() + ": the server ends");
    std::vector<Buffer> parts = std::move(image.states);
    parts.insert(parts.begin(), std::move(image.values));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (math::all_finite(parts[i].floats())) continue;
      return invalid(
          fmt::format("table \"{}\" has {} that are not finite: the training has diverged",
                      capture.tables[image.place.table.value()].name,
                      i == 0 ? "values" : "values of the solver's state"));
    }
    for (const Buffer& part : parts) {
      TAUT_TRY(add(part.bytes()));
    }
  }
  TAUT_TRY(out->commit());
  pb::CheckpointFile file;
  file.set_name(path.filename().string());
  file.set_bytes(head.file_bytes());
  file.set_sha256(digest.finish());
  return file;
}

Result<std::vector<ShardImages>> read_shard_images(const pb::ServerJob& job, std::size_t shards) {
  TAUT_TRY(const CheckpointReader saved, CheckpointReader::open_to_resume(job.resume().folder()));
  if (saved.manifest().clock() != job.resume().clock()) {
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("{}: is of clock {} now, it was of clock {} when the job started",
                    saved.folder().string(), saved.manifest().clock(), job.resume().clock()));
  }
  TAUT_TRY(const math::UpdateRule rule, to_update_rule(job.definition().solver_param()));
  TAUT_TRY(const Policies policies, to_policies(job.definition()));
  // If workers average, the rule's state is their own.
  const int of_rule = policies.find<Averaging>() == nullptr ? rule.state_count() : 0;
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
    const int state_count = table.kind == TableKind::kTrained ? of_rule + of_policies : 0;
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
