#include "lab/schedule/trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/files/file.hpp"
#include "lab/schedule/traces/formats.hpp"

namespace taut::schedule {
namespace {

struct Format {
  const char* name;
  bool (*is)(const TraceTable& table);
  Result<void> (*read)(const TraceTable& table, Trace& trace);
};

constexpr Format kFormats[] = {{"muri", is_muri, read_muri},
                               {"tiresias", is_tiresias, read_tiresias},
                               {"philly", is_philly, read_philly},
                               {"alibaba", is_alibaba, read_alibaba}};

void sort_by_submission(std::vector<Job>& jobs) {
  std::ranges::stable_sort(jobs, {}, &Job::submit_s);
  const double first_s = jobs.front().submit_s;
  for (Job& job : jobs) {
    job.submit_s -= first_s;
    // Half to twice what it requests.
    job.min_workers = std::max(1U, job.workers / 2);
    job.max_workers = 2 * job.workers;
  }
}

}  // namespace

Result<Trace> parse_trace(const std::string& text, const std::string& name) {
  TAUT_TRY(const TraceTable table, TraceTable::parse(text, name));
  for (const Format& format : kFormats) {
    if (!format.is(table)) continue;
    Trace trace;
    trace.format = format.name;
    TAUT_TRY(format.read(table, trace));
    if (trace.jobs.empty()) {
      return invalid(fmt::format("{}: at least one job must use a device, none does", name));
    }
    sort_by_submission(trace.jobs);
    return trace;
  }
  return invalid(fmt::format(
      "{}:1:1: the columns must be those of a trace of Tiresias, Muri, Philly or Alibaba 2023, "
      "are \"{}\"",
      name, text.substr(0, std::min<std::size_t>(text.find_first_of("\r\n"), 80))));
}

Result<Trace> read_trace(const std::filesystem::path& path) {
  TAUT_TRY(const std::string text, read_file_gz(path));
  return parse_trace(text, path.string());
}

}  // namespace taut::schedule
