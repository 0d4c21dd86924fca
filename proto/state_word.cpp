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

}  // namespace taut
