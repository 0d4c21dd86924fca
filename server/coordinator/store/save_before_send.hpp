#pragma once

#include <optional>
#include <vector>

#include "common/result.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/store/store.hpp"

namespace taut {

/// Saves what a coordinator has decided before anything of it is known elsewhere: no process may
/// know what a restart would forget. While the store fails, what was decided is kept for its next
/// save, and messages are left out; they are sent or requested again later. Answers to heartbeats
/// and requests of the status are sent even then, since a full disk must not cost the training its
/// coordinator, but for what says that a process may end; and so are refusals and answers to a
/// user's hello. A server or worker that connects anew waits.
class SaveBeforeSend {
 public:
  explicit SaveBeforeSend(CoordinatorStore& store) : store_(store) {}

  struct Released {
    std::vector<CoordinatorMessage> messages;
    CheckpointTasks tasks;
    std::optional<Error> failure;  // of the save; closed: see CoordinatorStore::save()
  };
  /// Saves the changes of a step, and those of earlier ones that are not saved yet. Returns what
  /// may be sent and done now. Notes are the caller's.
  [[nodiscard]] Released take(CoordinatorOutput output);

 private:
  CoordinatorStore& store_;
  CoordinatorChanges unsaved_;
  CheckpointTasks undone_;  // until all changes are saved
};

}  // namespace taut
