#include "lab/schedule/models.hpp"
#include "lab/schedule/traces/formats.hpp"

namespace taut::schedule {

bool is_tiresias(const TraceTable& table) {
  return !is_muri(table) &&
         table.has({"job_id", "num_gpu", "submit_time", "model_name", "duration"});
}

Result<void> read_tiresias(const TraceTable& table, Trace& trace) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Job job;
    job.name = table.text(row, "job_id");
    job.net = table.text(row, "model_name");
    job.model = find_model(job.net).value_or(stand_in_model(job.net));
    TAUT_TRY(job.workers, table.whole(row, "num_gpu", 1, kMaxWorkers));
    TAUT_TRY(job.submit_s, table.number(row, "submit_time"));
    TAUT_TRY(job.service_s, table.number(row, "duration", 0, true));
    set_stages_of_model(job);
    trace.jobs.push_back(std::move(job));
  }
  return ok();
}

}  // namespace taut::schedule
