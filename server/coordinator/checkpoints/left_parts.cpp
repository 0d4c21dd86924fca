#include "server/coordinator/checkpoints/left_parts.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace taut {
namespace {

constexpr Duration kRemoveAgain = std::chrono::minutes(1);
// A server that never returns is remembered for at most this many checkpoints.
constexpr int kMaxLeft = 256;

void add(pb::StoredJob& stored, const std::string& server, const std::string& folder,
         std::uint64_t order) {
  const bool is_known = std::ranges::any_of(stored.left_parts(), [&](const pb::LeftParts& one) {
    return one.server() == server && one.folder() == folder;
  });
  if (is_known) return;
  pb::LeftParts& left = *stored.add_left_parts();
  left.set_server(server);
  left.set_folder(folder);
  left.set_order(order);
}

}  // namespace

void leave_parts(JobRecord& job, const std::string& folder, std::uint64_t order) {
  if (folder.empty() || !job.stored().definition().checkpoint().has_coded()) return;
  pb::StoredJob& stored = job.change();
  for (const pb::StoredServer& server : stored.servers()) {
    const bool left_before = server.lost() && order > server.last_order();
    if (!left_before && !server.shard_addresses().empty()) {
      add(stored, server.name(), folder, order);
    }
  }
  const int excess = stored.left_parts_size() - kMaxLeft;
  if (excess > 0) stored.mutable_left_parts()->DeleteSubrange(0, excess);
}

void remove_left_parts(JobRecord& job, const Registry& registry, TimePoint now,
                       CheckpointTasks& tasks) {
  CheckpointTask task;
  for (const pb::LeftParts& left : job.stored().left_parts()) {
    const Participant* server = registry.find(pb::ROLE_SERVER, left.server());
    const bool is_here = server != nullptr && !server->lost && server->peer;
    if (!is_here || server->shard_addresses.empty()) continue;
    JobRecord::Removal& removal = job.removals[{left.server(), left.folder()}];
    if (removal.ordered_in == server->incarnation && now < removal.again) continue;
    removal = {server->incarnation, TimePoint::never()};
    task.removals.push_back(
        {left.server(), server->shard_addresses[0], left.folder(), left.order()});
  }
  if (task.removals.empty()) return;
  task.kind = CheckpointTask::Kind::kRemoveParts;
  task.job = JobId(job.stored().job());
  task.token = job.stored().token();
  tasks.push_back(std::move(task));
}

void note_removed(JobRecord& job, const CheckpointTask& task, const std::string& error,
                  TimePoint now) {
  auto& left = *job.change().mutable_left_parts();
  for (const PartRemoval& removal : task.removals) {
    if (!error.empty() || removal.failed) {
      const auto tried = job.removals.find({removal.server, removal.folder});
      if (tried != job.removals.end()) tried->second.again = now + kRemoveAgain;
      continue;
    }
    job.removals.erase({removal.server, removal.folder});
    left.erase(std::remove_if(left.begin(), left.end(),
                              [&](const pb::LeftParts& one) {
                                return one.server() == removal.server &&
                                       one.folder() == removal.folder;
                              }),
               left.end());
  }
}

}  // namespace taut
