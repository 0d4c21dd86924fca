#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/types.hpp"

namespace taut {

/// A line of the coordinator's log.
struct Note {
  JobId job;  // whose run folder gets it too; JobId() if it is about no single job
  std::string text;
};

/// Lines for the log, in their order.
class Notes {
 public:
  void add(std::string text) { notes_.push_back({JobId(), std::move(text)}); }
  /// "job 7: TEXT"
  void add(JobId job, std::string_view text) {
    add_named(job, fmt::format("job {}: {}", job.value(), text));
  }
  /// text  must name the job
  void add_named(JobId job, std::string text) { notes_.push_back({job, std::move(text)}); }
  [[nodiscard]] auto begin() const { return notes_.begin(); }
  [[nodiscard]] auto end() const { return notes_.end(); }
  [[nodiscard]] std::size_t size() const { return notes_.size(); }

 private:
  std::vector<Note> notes_;
};

}  // namespace taut
