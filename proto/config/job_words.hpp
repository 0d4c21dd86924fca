#pragma once

#include <string>

#include "proto/job.pb.h"

namespace taut {

/// How figures about a job are named, and what its rates count: the one place that decides it.
struct JobWords {
  std::string records = "records";  // of its data: "images", "sequences", "rows"
  std::string items = "records";    // what its rates count: the same, or "tokens"
  double items_per_record = 1;
  bool has_perplexity = false;  // its loss is a mean over words or characters

  [[nodiscard]] std::string rate() const { return items + "/s"; }
};

/// Read from the job's data layers. A text's record is a sequence of `steps` tokens, characters or
/// words; padding counts as the tokens that are computed.
[[nodiscard]] JobWords words_of(const pb::Job& job);

}  // namespace taut
