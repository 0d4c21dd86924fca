#include <algorithm>

#include "lab/schedule/models.hpp"
#include "lab/schedule/traces/formats.hpp"

namespace taut::schedule {

bool is_alibaba(const TraceTable& table) {
  return table.has(
      {"name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time"});
}

Result<void> read_alibaba(const TraceTable& table, Trace& trace) {
  constexpr std::uint32_t kWhole = 1000;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    TAUT_TRY(const std::uint32_t devices, table.whole(row, "num_gpu", 0, kMaxWorkers));
    const bool never_ran =
        table.text(row, "scheduled_time").empty() || table.text(row, "deletion_time").empty();
    if (devices == 0 || never_ran) {
      ++trace.left_out;
      continue;
    }
    Job job;
    job.name = table.text(row, "name");
    job.model = stand_in_model(job.name);
    job.workers = devices;
    TAUT_TRY(const std::uint32_t milli, table.whole(row, "gpu_milli", 1, kWhole));
    job.share = static_cast<double>(milli) / kWhole;
    TAUT_TRY(job.submit_s, table.number(row, "creation_time"));
    TAUT_TRY(const double began, table.number(row, "scheduled_time", job.submit_s));
    TAUT_TRY(const double ended, table.number(row, "deletion_time", began, true));
    job.service_s = ended - began;
    set_stages_of_model(job);
    trace.jobs.push_back(std::move(job));
  }
  return ok();
}

}  // namespace taut::schedule
