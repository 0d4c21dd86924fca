#include "server/dashboard/server_metrics.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "common/types.hpp"
#include "proto/state_word.hpp"
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

/// The clocks of the running jobs' workers.
void add_clocks(Scrape& scrape, const pb::StatusReply& status) {
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_slack_clocks", "Slack of a running job; +Inf if there is no bound.",
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
}

/// What would be lost with a server, and what was refused.
void add_risks(Scrape& scrape, const pb::StatusReply& status) {
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_unprotected_shards",
                 "Shards of a running job that are lost with their server.",
                 static_cast<double>(unprotected_shards(job)), labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_whole_backups",
                 "Whole backups of the shard of a running job that has fewest: as many servers may "
                 "be lost at the same time.",
                 static_cast<double>(fewest_whole_backups(job)), labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_wanted_backups", "Backups that each shard of a running job should have.",
                 static_cast<double>(required_backups(job)), labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_backup_lag_seconds",
                 "For how long a shard of a running job has held an update that a whole backup of "
                 "it lacks; of the backup that is furthest behind.",
                 furthest_behind(job).value_or(FurthestBehind{}).seconds, labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_backup_lag_clocks",
                 "Clocks whose updates a whole backup of a running job's shard lacks; of the "
                 "backup that is furthest behind.",
                 static_cast<double>(furthest_behind(job).value_or(FurthestBehind{}).clocks),
                 labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    // A worker that was lost and has rejoined is listed twice.
    std::map<std::string, std::uint64_t> refused;
    for (const pb::WorkerStatus& worker : job.workers()) {
      refused[worker.name()] += worker.bad_updates();
    }
    for (const auto& [worker, clocks] : refused) {
      Labels one = labels;
      one.emplace_back("worker", worker);
      scrape.gauge("job_refused_update_clocks",
                   "Clocks of a running job at which a worker's update was refused as not finite.",
                   static_cast<double>(clocks), one);
    }
  });
}

/// What would be lost with each shard's server. A shard without backups has no whole one.
void add_shards(Scrape& scrape, const pb::StatusReply& status) {
  const auto each = [&](const auto& add) {
    for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
      const int alone = static_cast<int>(job.no_backups().shards());
      for (int shard = 0; shard < job.shards_size() + alone; ++shard) {
        Labels one = labels;
        one.emplace_back("shard", fmt::format("{}", shard));
        add(shard < job.shards_size() ? job.shards(shard) : pb::ShardStatus::default_instance(),
            one);
      }
    });
  };
  each([&](const pb::ShardStatus& shard, const Labels& labels) {
    scrape.gauge("job_shard_whole_backups",
                 "Whole backups of a shard of a running job; 0: it is lost with its server.",
                 static_cast<double>(whole_backups(shard)), labels);
  });
  each([&](const pb::ShardStatus& shard, const Labels& labels) {
    scrape.gauge("job_shard_backup_lag_seconds",
                 "For how long a shard of a running job has held an update that a whole backup of "
                 "it lacks; of its backup that is furthest behind.",
                 furthest_behind(shard).value_or(FurthestBehind{}).seconds, labels);
  });
}

/// The workers of running jobs that divide the batch by speed.
void add_shares(Scrape& scrape, const pb::StatusReply& status) {
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    for (const pb::WorkerStatus& worker : job.workers()) {
      if (worker.progress().share() == 0 || worker.state() == pb::PROCESS_LOST) continue;
      Labels one = labels;
      one.emplace_back("worker", worker.name());
      scrape.gauge("worker_share_records",
                   "Records of a batch that a worker of a balanced job has.",
                   static_cast<double>(worker.progress().share()), one);
    }
  });
}

/// The readers of running jobs.
void add_followers(Scrape& scrape, const pb::StatusReply& status) {
  const auto each = [&](const auto& add) {
    for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
      for (const pb::FollowerStatus& follower : job.followers()) {
        Labels one = labels;
        one.emplace_back("follower", follower.name());
        one.emplace_back("bounded", follower.bounded() ? "true" : "false");
        add(follower, one);
      }
    });
  };
  each([&](const pb::FollowerStatus& follower, const Labels& labels) {
    scrape.gauge("follower_version", "The version of the model that a follower has; -1: none.",
                 static_cast<double>(follower.version()), labels);
  });
  each([&](const pb::FollowerStatus& follower, const Labels& labels) {
    scrape.gauge("follower_behind_clocks",
                 "Clocks that training is ahead of a follower's model; -1: not known.",
                 static_cast<double>(follower.behind()), labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_cut_followers",
                 "Bounded followers of a running job that were silent too long and were cut.",
                 static_cast<double>(job.cut_followers()), labels);
  });
}

/// What the running jobs have learned, and how fast.
void add_training(Scrape& scrape, const pb::StatusReply& status) {
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    scrape.gauge("job_loss", "The mean loss of a running job's workers.", figures_of(job).loss,
                 labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, Labels labels) {
    labels.emplace_back("unit", job.rate_unit());
    scrape.gauge("job_rate", "Items that a running job trains in a second, over the last seconds.",
                 job.rate(), labels);
  });
  for_jobs(status, [&](const pb::JobStatus& job, const Labels& labels) {
    const int tests = job.evaluations_size();
    if (tests == 0 || std::isnan(job.evaluations(tests - 1).accuracy())) return;
    scrape.gauge("job_test_accuracy", "The newest test accuracy of a running job.",
                 job.evaluations(tests - 1).accuracy(), labels);
  });
}

}  // namespace

void add_server(Scrape& scrape, const std::string& server, const ServerFigures& figures) {
  const std::vector<ShardFigures>& shards = figures.shards;
  using Value = std::function<double(const ShardFigures&)>;
  const auto each = [&](auto add, const char* name, const char* help,
                        const std::vector<std::pair<std::string, Value>>& by_direction) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const auto& [direction, value] : by_direction) {
        Labels labels{{"server", server}, {"shard", fmt::format("{}", i)}};
        if (!direction.empty()) labels.emplace_back("direction", direction);
        (scrape.*add)(name, help, value(shards[i]), std::move(labels));
      }
    }
  };
  const auto done = [](auto get) {
    return [get](const ShardFigures& shard) { return static_cast<double>((shard.load.*get)()); };
  };
  const auto now = [](auto member) {
    return [member](const ShardFigures& shard) { return static_cast<double>(shard.*member); };
  };
  using Load = pb::ShardLoad;
  each(&Scrape::counter, "shard_busy_seconds_total", "Time that a shard spent on messages.",
       {{"", done(&Load::busy_s)}});
  each(&Scrape::counter, "shard_messages_total", "Messages of the data plane at a shard.",
       {{"in", done(&Load::messages_in)}, {"out", done(&Load::messages_out)}});
  each(&Scrape::counter, "shard_bytes_total", "Payload bytes of the data plane at a shard.",
       {{"in", done(&Load::bytes_in)}, {"out", done(&Load::bytes_out)}});
  each(&Scrape::gauge, "shard_parked_reads",
       "Reads of slices that wait at a shard until the slack allows them.",
       {{"", now(&ShardFigures::parked_reads)}});
  each(&Scrape::gauge, "shard_held_updates",
       "Updates of slices that a shard has accepted and not applied yet.",
       {{"", now(&ShardFigures::held_updates)}});
  each(&Scrape::gauge, "shard_held_bytes", "Payload bytes of these updates.",
       {{"", now(&ShardFigures::held_bytes)}});
  each(&Scrape::counter, "shard_postponed_updates_total",
       "Updates of slices refused for now, to be sent again: the job's epoch was changing, or "
       "an earlier one was missing.",
       {{"", now(&ShardFigures::postponed_updates)}});
  each(&Scrape::gauge, "shard_rows", "Rows that a shard keeps of tables by rows.",
       {{"", now(&ShardFigures::rows)}});
  each(&Scrape::gauge, "shard_dropped_rows",
       "Rows that these tables have dropped, as they were not updated for long or were too many.",
       {{"", now(&ShardFigures::dropped_rows)}});
  each(&Scrape::counter, "shard_dropped_updates_total",
       "Updates that arrived after the end of their clock (backup workers).",
       {{"", done(&Load::dropped_updates)}});
  each(&Scrape::counter, "shard_unproven_messages_total",
       "Messages that were dropped, as their key or their secret did not allow them.",
       {{"", done(&Load::unproven_messages)}});
  scrape.gauge("server_table_bytes",
               "Memory of the tables of a server's shards, with the states of the update rule.",
               static_cast<double>(figures.table_bytes), {{"server", server}});
  scrape.gauge("server_table_limit_bytes", "Limit of that memory.",
               static_cast<double>(figures.table_limit_bytes), {{"server", server}});
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
    for (const auto& process : processes) lost += process.state() == pb::PROCESS_LOST ? 1 : 0;
    const char* help = "Servers and workers that the coordinator has seen.";
    scrape.gauge("processes", help, static_cast<double>(processes.size()) - lost,
                 {{"role", role}, {"state", "live"}});
    scrape.gauge("processes", help, lost, {{"role", role}, {"state", "lost"}});
  };
  count("server", status.servers());
  count("worker", status.workers());
  add_clocks(scrape, status);
  add_risks(scrape, status);
  add_shards(scrape, status);
  add_shares(scrape, status);
  add_followers(scrape, status);
  add_training(scrape, status);
}

}  // namespace taut::dashboard
