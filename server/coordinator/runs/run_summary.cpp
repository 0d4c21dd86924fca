#include "server/coordinator/runs/run_summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "common/types.hpp"
#include "proto/config/job_words.hpp"
#include "proto/formats/run_json.hpp"
#include "proto/state_word.hpp"
#include "server/coordinator/job_status.hpp"

namespace taut {
namespace {

using Json = nlohmann::ordered_json;

Json worker_json(const pb::StoredMember& member) {
  const pb::Progress& own = member.progress();
  const double spent = own.compute_s() + own.wait_s();
  return {{"name", member.member().name()},
          {"state", member.lost()       ? "lost"
                    : member.finished() ? "finished"
                                        : "idle"},
          {"device", member.device()},
          {"clock", own.clock()},
          {"loss", own.loss()},
          {"images", own.images()},
          {"share", own.share()},
          {"compute_s", own.compute_s()},
          {"wait_s", own.wait_s()},
          {"waiting_share", spent > 0 ? own.wait_s() / spent : 0},
          {"pushed_bytes", own.pushed_bytes()},
          {"read_bytes", own.read_bytes()},
          {"saved_bytes", own.saved_bytes()},
          {"read_saved_bytes", own.read_saved_bytes()},
          {"seconds_to_first_iteration", own.seconds_to_first_iteration()},
          {"consensus_error", own.has_consensus_error() ? Json(own.consensus_error()) : Json()}};
}

/// The mean of the workers that have met; null: none keeps separate parameters.
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

Json staleness_json(const pb::StoredJob& job) {
  std::map<std::int64_t, std::uint64_t> reads;
  const auto add = [&reads](const auto& bins) {
    for (const pb::StalenessBin& bin : bins) {
      if (bin.reads() > 0) reads[bin.staleness()] += bin.reads();
    }
  };
  add(job.former().staleness());
  for (const pb::StoredMember& member : job.members()) add(member.progress().staleness());
  Json all = Json::array();
  for (const auto& [staleness, count] : reads) {
    all.push_back({{"staleness", staleness}, {"reads", count}});
  }
  return all;
}

Json evaluations_json(const pb::StoredJob& job, const JobWords& words) {
  std::map<std::int64_t, const pb::Evaluation*> by_clock;
  for (const pb::Evaluation& one : job.evaluations()) by_clock[one.clock()] = &one;
  Json all = Json::array();
  for (const auto& [clock, one] : by_clock) {
    // JSON has no NaN: null where the net has no Accuracy.
    all.push_back({{"iteration", clock}, {"accuracy", one->accuracy()}, {"loss", one->loss()}});
    if (words.has_perplexity) all.back()["perplexity"] = std::exp(one->loss());
  }
  return all;
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
  for (const pb::StoredMember& member : job.members()) workers.push_back(worker_json(member));
  Json checkpoints = Json::array();
  for (const pb::KeptCheckpoint& kept : job.checkpoints()) {
    checkpoints.push_back({{"iteration", kept.clock()}, {"folder", kept.folder()}});
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
      // Unbounded has no number.
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
      {"staleness", staleness_json(job)},
      {"evaluations", evaluations_json(job, words)},
      {"checkpoints", checkpoints},
      {"parameters_sha256", job.parameters_sha256()},
      {"records_kept_at", records}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace taut
