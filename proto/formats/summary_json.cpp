#include "proto/formats/summary_json.hpp"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace taut {

using Json = nlohmann::ordered_json;

Json worker_json(const std::string& name, const std::string& state, const std::string& device,
                 const pb::Progress& progress) {
  const double spent = progress.compute_s() + progress.wait_s();
  return {{"name", name},
          {"state", state},
          {"device", device},
          {"clock", progress.clock()},
          {"loss", progress.loss()},
          {"images", progress.images()},
          {"share", progress.share()},
          {"compute_s", progress.compute_s()},
          {"wait_s", progress.wait_s()},
          {"waiting_share", spent > 0 ? progress.wait_s() / spent : 0},
          {"pushed_bytes", progress.pushed_bytes()},
          {"read_bytes", progress.read_bytes()},
          {"saved_bytes", progress.saved_bytes()},
          {"read_saved_bytes", progress.read_saved_bytes()},
          {"resent_requests", progress.resent_requests()},
          {"seconds_to_first_iteration", progress.seconds_to_first_iteration()},
          {"consensus_error",
           progress.has_consensus_error() ? Json(progress.consensus_error()) : Json()}};
}

Json staleness_json(const std::vector<std::pair<std::int64_t, std::uint64_t>>& reads) {
  Json all = Json::array();
  for (const auto& [staleness, count] : reads) {
    all.push_back({{"staleness", staleness}, {"reads", count}});
  }
  return all;
}

Json evaluations_json(const google::protobuf::RepeatedPtrField<pb::Evaluation>& tests,
                      bool has_perplexity) {
  std::map<std::int64_t, const pb::Evaluation*> by_clock;
  for (const pb::Evaluation& test : tests) by_clock[test.clock()] = &test;
  Json all = Json::array();
  for (const auto& [clock, test] : by_clock) {
    all.push_back({{"iteration", clock}, {"accuracy", test->accuracy()}, {"loss", test->loss()}});
    if (has_perplexity) all.back()["perplexity"] = std::exp(test->loss());
  }
  return all;
}

Json checkpoints_json(const google::protobuf::RepeatedPtrField<pb::KeptCheckpoint>& checkpoints) {
  Json all = Json::array();
  for (const pb::KeptCheckpoint& kept : checkpoints) {
    all.push_back({{"iteration", kept.clock()}, {"folder", kept.folder()}});
  }
  return all;
}

}  // namespace taut
