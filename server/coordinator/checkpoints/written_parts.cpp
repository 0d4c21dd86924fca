#include "server/coordinator/checkpoints/written_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "proto/config/exchange/worker_state.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "proto/wire_version.hpp"

namespace taut {
namespace {

void add_part(const pb::CheckpointPart& part, std::uint64_t number, const std::string& process,
              PartsProgress& parts) {
  if (part.number() != number) {
    parts.written = false;
    return;
  }
  parts.missed |= part.missed();
  parts.written &= part.written();
  if (!part.error().empty() && parts.error.empty()) {
    parts.error = fmt::format("{}: {}", process, part.error());
  }
}

/// Whether a worker takes part in the checkpoint at this clock: it is not lost and joined by then.
bool contributes(const pb::StoredMember& member, std::int64_t clock) {
  return !member.lost() && member.member().join_clock() <= clock;
}

}  // namespace

bool owes_checkpoint(const JobRecord& job, int member) {
  const pb::StoredJob& stored = job.stored();
  return stored.has_checkpoint() && stored.state() == pb::RUNNING && !stored.closing() &&
         carries_state(stored.definition()) &&
         contributes(stored.members(member), stored.checkpoint().clock());
}

PartsProgress progress_of_parts(const JobRecord& job) {
  const pb::StoredJob& stored = job.stored();
  const std::uint64_t number = stored.checkpoint().number();
  PartsProgress parts;
  for (int i = 0; i < stored.servers_size(); ++i) {
    if (stored.servers(i).lost()) continue;
    add_part(job.servers[static_cast<std::size_t>(i)].reply.checkpoint(), number,
             fmt::format("server \"{}\"", stored.servers(i).name()), parts);
  }
  if (!carries_state(stored.definition())) return parts;
  for (const pb::StoredMember& member : stored.members()) {
    if (!contributes(member, stored.checkpoint().clock())) continue;
    add_part(member.progress().checkpoint(), number,
             fmt::format("worker \"{}\"", member.member().name()), parts);
  }
  return parts;
}

pb::CheckpointManifest manifest_of(const JobRecord& job) {
  const pb::StoredJob& stored = job.stored();
  const pb::CheckpointOrder& order = stored.checkpoint();
  pb::CheckpointManifest manifest;
  const pb::CheckpointOptions& options = stored.definition().checkpoint();
  manifest.set_format(options.incremental() || options.has_coded() ? kCheckpointFormat
                                                                   : kPlainCheckpointFormat);
  manifest.set_build(build_name());
  manifest.set_wire_version(kWireVersion);
  manifest.set_job(stored.job());
  manifest.set_token(stored.token());
  manifest.set_number(order.number());
  manifest.set_clock(order.clock());
  manifest.set_slack(stored.slack());
  manifest.set_slots(stored.slots());
  *manifest.mutable_definition() = stored.definition();
  if (order.has_coding()) *manifest.mutable_coding() = order.coding();
  if (stored.has_compression()) *manifest.mutable_compression() = stored.compression();
  for (const pb::StoredMember& one : stored.members()) {
    pb::CheckpointMember& member = *manifest.add_members();
    member.set_worker(one.member().worker());
    member.set_slot(one.member().slot());
    member.set_name(one.member().name());
    member.set_join_clock(one.member().join_clock());
    member.set_leave_clock(one.member().leave_clock());
    const pb::CheckpointPart& part = one.progress().checkpoint();
    if (contributes(one, order.clock()) && part.number() == order.number()) {
      manifest.mutable_files()->MergeFrom(part.files());
    }
  }
  for (const JobRecord::Server& server : job.servers) {
    if (server.lost) continue;
    const pb::CheckpointPart& part = server.reply.checkpoint();
    for (const pb::CheckpointFile& file : part.files()) {
      // Servers may share a file of an earlier checkpoint.
      const bool is_new = std::ranges::none_of(
          manifest.files(), [&](const auto& known) { return known.name() == file.name(); });
      if (is_new) *manifest.add_files() = file;
    }
    // A server that serves no shard knows no tables.
    if (part.tables_size() > 0) *manifest.mutable_tables() = part.tables();
  }
  return manifest;
}

}  // namespace taut
