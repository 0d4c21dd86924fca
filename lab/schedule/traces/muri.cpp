#include "lab/schedule/models.hpp"
#include "lab/schedule/traces/formats.hpp"

namespace taut::schedule {

bool is_muri(const TraceTable& table) {
  return table.has({"job_id", "num_gpu", "submit_time", "model_name", "duration", "iteration_time",
                    "resource_time_0", "resource_time_1", "resource_time_2"});
}

Result<void> read_muri(const TraceTable& table, Trace& trace) {
  constexpr double kSecond = 1e-3;  // in a millisecond
  constexpr double kMax = 1e3 * kMaxSeconds;
  const auto time = [&table](std::size_t row, const char* column, bool above = false) {
    return table.number(row, column, 0, above, kMax);
  };
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Job job;
    job.name = table.text(row, "job_id");
    job.net = table.text(row, "model_name");
    job.model = find_model(job.net).value_or(stand_in_model(job.net));
    TAUT_TRY(job.workers, table.whole(row, "num_gpu", 1, kMaxWorkers));
    TAUT_TRY(const double submit, time(row, "submit_time"));
    TAUT_TRY(const double duration, time(row, "duration", true));
    TAUT_TRY(const double iteration, time(row, "iteration_time", true));
    TAUT_TRY(const double input, time(row, "resource_time_0"));
    TAUT_TRY(const double device, time(row, "resource_time_1"));
    TAUT_TRY(const double network, time(row, "resource_time_2"));
    job.submit_s = kSecond * submit;
    job.service_s = kSecond * duration;
    job.iteration_s = kSecond * iteration;
    job.stage_s = {kSecond * input, kSecond * device, kSecond * network};
    trace.jobs.push_back(std::move(job));
  }
  return ok();
}

}  // namespace taut::schedule
