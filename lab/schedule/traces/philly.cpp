#include <fmt/format.h>

#include "lab/schedule/models.hpp"
#include "lab/schedule/traces/formats.hpp"

namespace taut::schedule {

bool is_philly(const TraceTable& table) {
  return table.has({"timestamp", "duration", "num_gpus", "gpu_time", "cluster"});
}

Result<void> read_philly(const TraceTable& table, Trace& trace) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Job job;
    job.name = fmt::format("{}-{}", table.text(row, "cluster"), row);
    job.model = stand_in_model(job.name);
    TAUT_TRY(job.workers, table.whole(row, "num_gpus", 1, kMaxWorkers));
    TAUT_TRY(job.submit_s, table.time(row, "timestamp"));
    TAUT_TRY(job.service_s, table.number(row, "duration", 0, true));
    set_stages_of_model(job);
    trace.jobs.push_back(std::move(job));
  }
  return ok();
}

}  // namespace taut::schedule
