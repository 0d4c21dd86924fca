#include "server/coordinator/store/save_before_send.hpp"

#include <iterator>
#include <utility>

namespace taut {
namespace {

bool must_be_saved_first(const CoordinatorMessage& outgoing) {
  const pb::ControlMessage& message = outgoing.message;
  if (message.has_hello_reply()) return message.hello_reply().incarnation() > 0;
  if (message.has_submit_reply()) return message.submit_reply().error().empty();
  if (message.has_command_reply()) return message.command_reply().error().empty();
  return !message.has_heartbeat_reply() && !message.has_status_reply();
}

/// Clears is_drained, which may follow from unsaved changes: a restart would wait for the process.
void forget_drained(pb::ControlMessage& message) {
  if (message.has_heartbeat_reply()) message.mutable_heartbeat_reply()->set_is_drained(false);
  if (!message.has_status_reply()) return;
  pb::StatusReply& status = *message.mutable_status_reply();
  for (pb::ServerStatus& server : *status.mutable_servers()) server.set_is_drained(false);
  for (pb::WorkerStatus& worker : *status.mutable_workers()) worker.set_is_drained(false);
}

}  // namespace

SaveBeforeSend::Released SaveBeforeSend::take(CoordinatorOutput output) {
  unsaved_.merge(std::move(output.changes));
  undone_.insert(undone_.end(), std::make_move_iterator(output.tasks.begin()),
                 std::make_move_iterator(output.tasks.end()));
  Released released{std::move(output.messages), {}, {}};
  if (!unsaved_.empty()) {
    if (Result<void> saved = store_.save(unsaved_); !saved) {
      released.failure = std::move(saved.error());
      std::erase_if(released.messages, must_be_saved_first);
      for (CoordinatorMessage& outgoing : released.messages) forget_drained(outgoing.message);
      return released;
    }
    unsaved_ = {};
  }
  released.tasks = std::exchange(undone_, {});
  return released;
}

}  // namespace taut
