#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "lab/schedule/trace_job.hpp"

namespace taut::schedule {

struct Trace {
  std::string format;        // "tiresias", "muri", "philly", "alibaba", or a workload's name
  std::vector<Job> jobs;     // by time of submission, which starts at 0
  std::size_t left_out = 0;  // lines of jobs that use no device or never ran
};

/// Reads a trace, gzipped or not; its first line determines the format.
/// Errors    the file and the line, what is wrong and what is required
[[nodiscard]] Result<Trace> read_trace(const std::filesystem::path& path);

/// As read_trace(), for a text; errors call it `name`.
[[nodiscard]] Result<Trace> parse_trace(const std::string& text, const std::string& name);

}  // namespace taut::schedule
