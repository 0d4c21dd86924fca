#include "server/dashboard/server_metrics.hpp"

#include <fmt/format.h>

#include <limits>

#include "common/types.hpp"
#include "server/dashboard/status_json.hpp"

namespace taut::dashboard {
namespace {

using metrics::Labels;
using metrics::Scrape;

template <class Value>
void for_jobs(const pb::StatusReply& status, const Value& value) {
  for (const pb::JobStatus& job : status.jobs()) {
    if (job.state() != pb::RUNNING) continue;
    value(job, Labels{{"job", fmt::format("{}", job.job())}, {"name", job.name()}});
  }
}

}  // namespace

void add_shards(Scrape& scrape, const std::string& server,
                const std::vector<pb::ShardLoad>& loads) {
  const auto labels = [&](std::size_t shard) {
    return Labels{{"server", server}, {"shard", fmt::format("{}", shard)}};
  };
  const auto with = [&](std::size_t shard, const char* direction) {
    Labels all = labels(shard);
    all.emplace_back("direction", direction);
    return all;
  };
  for (std::size_t i = 0; i < loads.size(); ++i) {
    scrape.counter("shard_busy_seconds_total", "Time in which a shard answered messages.",
                   loads[i].busy_s(), labels(i));
  }
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const char* help = "Messages of the data plane at a shard.";
    scrape.counter("shard_messages_total", help, static_cast<double>(loads[i].messages_in()),
                   with(i, "in"));
    scrape.counter("shard_messages_total", help, static_cast<double>(loads[i].messages_out()),
                   with(i, "out"));
  }
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const char* help = "Payload bytes of the data plane at a shard.";
    scrape.counter("shard_bytes_total", help, static_cast<double>(loads[i].bytes_in()),
                   with(i, "in"));
    scrape.counter("shard_bytes_total", help, static_cast<double>(loads[i].bytes_out()),
                   with(i, "out"));
  }
  for (std::size_t i = 0; i < loads.size(); ++i) {
    scrape.counter("shard_dropped_updates_total",
                   "Updates that came when their clock was over (backup workers).",
                   static_cast<double>(loads[i].dropped_updates()), labels(i));
  }
}

void add_cluster(Scrape& scrape, const pb::StatusReply& status) {
  for (const auto state : {pb::SUBMITTED, pb::RUNNING, pb::DONE, pb::FAILED, pb::STOPPED}) {
    double jobs = 0;
    for (const pb::JobStatus& job : status.jobs()) jobs += job.state() == state ? 1 : 0;
    std::string word = pb::JobState_Name(state);
    for (char& c : word) c = static_cast<char>(c | 0x20);
    scrape.gauge("jobs", "Jobs by state.", jobs, {{"state", word}});
  }
  const auto count = [&](const char* role, const auto& processes) {
    double lost = 0;
    for (const auto& process : processes) lost += process.state() == "lost" ? 1 : 0;
    const char* help = "Servers and workers that the coordinator has seen.";
    scrape.gauge("processes", help, static_cast<double>(processes.size()) - lost,
                 {{"role", role}, {"state", "live"}});
    scrape.gauge("processes", help, lost, {{"role", role}, {"state", "lost"}});
  };
  count("server", status.servers());
  count("worker", status.workers());
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_slack_clocks", "The bound of a running job; +Inf: none.",
                 Slack(job.slack()).is_unbounded() ? std::numeric_limits<double>::infinity()
                                                   : static_cast<double>(job.slack()),
                 labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_slowest_clock", "The clock of a running job's slowest worker.",
                 static_cast<double>(figures_of(job).slowest), labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_fastest_clock", "The clock of a running job's fastest worker.",
                 static_cast<double>(figures_of(job).fastest), labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_loss", "The mean loss of a running job's workers.", figures_of(job).loss,
                 labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    const int tests = job.evaluations_size();
    if (tests == 0) return;
    scrape.gauge("job_test_accuracy", "The newest test accuracy of a running job.",
                 job.evaluations(tests - 1).accuracy(), labels);
  });
}

}  // namespace taut::dashboard
