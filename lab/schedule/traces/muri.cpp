#include "lab/schedule/models.hpp"
#include "lab/schedule/traces/formats.hpp"

namespace taut::schedule {

bool is_muri(const TraceTable& table) {
  return table.has({"job_id", "num_gpu", "submit_time", "model_name", "duration", "iteration_time",
                    "resource_time_0", "resource_time_1", "resource_time_2"});
}

Result<void> read_muri(const TraceTable& table, Trace& trace) {
  constexpr double kSecond = 1e-3;  // of a millisecond
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Job job;
    job.name = table.text(row, "job_id");
    const auto model = find_model(table.text(row, "model_name"));
    job.model = model.value_or(stand_in_model(table.text(row, "model_name")));
    TAUT_TRY(job.workers, table.whole(row, "num_gpu", 1, kMaxWorkers));
    TAUT_TRY(const double submit, table.number(row, "submit_time"));
    TAUT_TRY(const double duration, table.number(row, "duration", 0, true));
    TAUT_TRY(const double iteration, table.number(row, "iteration_time", 0, true));
    TAUT_TRY(const double input, table.number(row, "resource_time_0"));
    TAUT_TRY(const double device, table.number(row, "resource_time_1"));
    TAUT_TRY(const double network, table.number(row, "resource_time_2"));
    job.submit_s = kSecond * submit;
    job.service_s = kSecond * duration;
    job.iteration_s = kSecond * iteration;
    job.stage_s = {kSecond * input, kSecond * device, kSecond * network};
    trace.jobs.push_back(std::move(job));
  }
  return ok();
}

}  // namespace taut::schedule
