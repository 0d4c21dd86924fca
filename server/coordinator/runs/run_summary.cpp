#include "server/coordinator/runs/run_summary.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/types.hpp"
#include "proto/config/job_words.hpp"
#include "proto/formats/run_json.hpp"
#include "proto/formats/summary_json.hpp"
#include "proto/state_word.hpp"
#include "server/coordinator/job_status.hpp"

namespace taut {
namespace {

using Json = nlohmann::ordered_json;

/// The mean consensus error of the workers that report one; null if none keeps its own parameters.
Json consensus_error_of(const pb::StoredJob& job) {
  double sum = 0;
  int workers = 0;
  for (const pb::StoredMember& member : job.members()) {
    if (member.lost() || !member.progress().has_consensus_error()) continue;
    sum += member.progress().consensus_error();
    ++workers;
  }
  return workers > 0 ? Json(sum / workers) : Json();
}

std::vector<std::pair<std::int64_t, std::uint64_t>> staleness_of(const pb::StoredJob& job) {
  std::map<std::int64_t, std::uint64_t> reads;
  const auto add = [&reads](const auto& bins) {
    for (const pb::StalenessBin& bin : bins) {
      if (bin.reads() > 0) reads[bin.staleness()] += bin.reads();
    }
  };
  add(job.former().staleness());
  for (const pb::StoredMember& member : job.members()) add(member.progress().staleness());
  return {reads.begin(), reads.end()};
}

std::int64_t iterations_of(const pb::StoredJob& job) {
  std::int64_t slowest = -1;
  for (const pb::StoredMember& member : job.members()) {
    if (member.lost()) continue;
    const std::int64_t clock = member.progress().clock();
    slowest = slowest < 0 ? clock : std::min(slowest, clock);
  }
  return std::max<std::int64_t>(slowest, 0);
}

}  // namespace

std::string run_summary_json(const pb::StoredJob& job, const RunPlaces& places) {
  const Slack slack(job.slack());
  const JobWords words = words_of(job.definition());
  Json workers = Json::array();
  for (const pb::StoredMember& member : job.members()) {
    const char* const state = member.lost() ? "lost" : member.finished() ? "finished" : "idle";
    workers.push_back(
        worker_json(member.member().name(), state, member.device(), member.progress()));
  }
  Json records = Json::array();
  for (const auto& [process, place] : places.records) {
    records.push_back({{"process", process}, {"kept_at", place}});
  }
  const char* const mode = slack.is_unbounded() ? "ASYNC" : slack == Slack(0) ? "BSP" : "SSP";
  const Json whole = {
      {"job", job.definition().name()},
      {"job_id", job.job()},
      {"state", state_word(job.state())},
      {"message", job.message()},
      {"advice", advice_for(job)},
      {"mode", mode},
      // An unbounded slack has no number.
      {"slack", slack.is_unbounded() ? Json() : Json(job.slack())},
      {"compression", job.has_compression() ? choice_json(job.compression()) : Json()},
      {"servers", job.servers_size()},
      {"iterations", iterations_of(job)},
      {"max_iter", job.definition().solver_param().max_iter()},
      {"running_s", job.running_s()},
      {"records", words.records},
      {"images_per_second", job.records_per_second()},
      {"rate", words.items_per_record * job.records_per_second()},
      {"rate_unit", words.rate()},
      {"workers", workers},
      {"former_workers", job.former().members()},
      {"consensus_error", consensus_error_of(job)},
      {"staleness", staleness_json(staleness_of(job))},
      {"evaluations", evaluations_json(job.evaluations(), words.has_perplexity)},
      {"checkpoints", checkpoints_json(job.checkpoints())},
      {"parameters_sha256", job.parameters_sha256()},
      {"records_kept_at", records}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace taut
