#pragma once

#include <string>

#include "proto/job.pb.h"

namespace taut::cli {

/// How figures about a job are named. Where only its status is known, its records have no other
/// name.
struct JobWords {
  std::string records = "records";  // "images", "sequences"
  bool has_perplexity = false;      // its loss is a mean over words or characters

  [[nodiscard]] std::string rate() const { return records + "/s"; }
};

/// Read from the job's data layers.
[[nodiscard]] JobWords words_of(const pb::Job& job);

}  // namespace taut::cli
