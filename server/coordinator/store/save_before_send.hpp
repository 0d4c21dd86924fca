#pragma once

#include <optional>
#include <vector>

#include "common/result.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/store/store.hpp"

namespace taut {

/// Saves a coordinator's decisions before any of them is known elsewhere: no process may know what
/// a restart would forget. While the store fails, decisions are kept for its next save, and
/// messages are dropped; they are sent or requested again later. Replies to heartbeats and status
/// requests are sent even then, since a full disk must not cost the training its coordinator, but
/// without permission for a process to end; refusals and replies to a user's hello are sent too. A
/// server or worker that joins or reconnects must wait.
class SaveBeforeSend {
 public:
  explicit SaveBeforeSend(CoordinatorStore& store) : store_(store) {}

  struct Released {
    std::vector<CoordinatorMessage> messages;
    CheckpointTasks tasks;
    std::optional<Error> failure;  // of the save; closed: see CoordinatorStore::save()
  };
  /// Saves the changes of a step, and those of earlier steps that are not saved yet. Returns what
  /// may be sent and done now. The caller handles the notes.
  [[nodiscard]] Released take(CoordinatorOutput output);

 private:
  CoordinatorStore& store_;
  CoordinatorChanges unsaved_;
  CheckpointTasks undone_;  // until all changes are saved
};

}  // namespace taut
