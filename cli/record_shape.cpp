#include "cli/record_shape.hpp"

#include <algorithm>

#include "worker/data/open_source.hpp"
#include "worker/model/job_data.hpp"

namespace taut::cli {

JobRecords records_of(const pb::Job& job) {
  JobRecords found;
  found.records.otherwise = labelled_image(1, 28, 28);
  for (const pb::Phase phase : {pb::TRAIN, pb::TEST}) {
    const auto layers = model::data_of(job, phase);
    if (!layers) continue;
    const data::Part part = phase == pb::TRAIN ? data::Part::kTrain : data::Part::kTest;
    for (const auto& [layer, place] : layers.value()) {
      auto fields = data::peek_fields(layer, {place.folder, place.images, place.labels}, part);
      if (fields) {
        auto& known = phase == pb::TRAIN ? found.records.train : found.records.test;
        known[layer.name()] = std::move(*fields);
      } else if (std::ranges::find(found.unknown, layer.name()) == found.unknown.end()) {
        found.unknown.push_back(layer.name());
      }
    }
  }
  return found;
}

}  // namespace taut::cli
