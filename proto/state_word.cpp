#include "proto/state_word.hpp"

namespace taut {

const char* state_word(pb::JobState state) {
  switch (state) {
    case pb::SUBMITTED:
      return "submitted";
    case pb::RUNNING:
      return "running";
    case pb::DONE:
      return "done";
    case pb::FAILED:
      return "failed";
    default:
      return "stopped";
  }
}

const char* state_word(pb::ProcessState state) {
  switch (state) {
    case pb::PROCESS_LIVE:
      return "live";
    case pb::PROCESS_IDLE:
      return "idle";
    case pb::PROCESS_RUNNING:
      return "running";
    case pb::PROCESS_FINISHED:
      return "finished";
    case pb::PROCESS_LOST:
      return "lost";
    default:
      return "unknown";
  }
}

const char* state_word(const pb::ServerStatus& server) {
  if (server.state() == pb::PROCESS_LOST || !server.leaves()) return state_word(server.state());
  return server.is_drained() ? "drained" : "leaving";
}

const char* state_word(const pb::WorkerStatus& worker) {
  if (worker.state() == pb::PROCESS_LOST) return worker.progress().left() ? "left" : "lost";
  if (!worker.leaves()) return state_word(worker.state());
  return worker.is_drained() ? "drained" : "leaving";
}

}  // namespace taut
