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

}  // namespace taut
