#include "worker/replica.hpp"

#include <fmt/format.h>

#include <utility>

#include "worker/model/job_data.hpp"

namespace taut::worker {
namespace {

Result<std::shared_ptr<const data::Dataset>> open_data(const pb::Job& job, pb::Phase phase) {
  TAUT_TRY(const model::DataPlace place, model::data_of(job, phase));
  const data::Part part = phase == pb::TRAIN ? data::Part::kTrain : data::Part::kTest;
  if (!place.folder.empty()) {
    TAUT_TRY(auto set, data::open_dataset(place.folder, part));
    return std::shared_ptr<const data::Dataset>(std::move(set));
  }
  TAUT_TRY(auto set, data::open_dataset(place.images, place.labels));
  return std::shared_ptr<const data::Dataset>(std::move(set));
}

model::RecordShape record_of(const data::Dataset& set) {
  const data::ImageShape shape = set.shape();
  return {shape.channels, shape.height, shape.width};
}

/// What feeds the net: its Data layer, or nothing where an Input layer does.
const model::Node* data_node(const model::Graph& graph) {
  for (const model::Node& node : graph.nodes) {
    if (node.bottoms.empty() && !node.tops.empty()) return &node;
  }
  return nullptr;
}

Result<std::int64_t> batch_of(const model::Graph& graph) {
  const model::Node* node = data_node(graph);
  if (node == nullptr) {
    return invalid(fmt::format("net \"{}\" has no Data layer to feed it", graph.name));
  }
  return graph.blobs[node->tops[0]].shape[0];
}

Result<void> check_labels(const data::Dataset& set, const model::Graph& graph) {
  const std::int64_t classes = model::label_classes(graph);
  return classes > 0 ? set.check_labels(classes) : ok();
}

data::Transform transform_of(const model::Graph& graph) {
  const pb::TransformationParameter& given = data_node(graph)->definition.transform_param();
  return {given.scale(), {given.mean_value().begin(), given.mean_value().end()}};
}

}  // namespace

Result<JobAssets> JobAssets::open(const pb::Job& job, std::uint32_t members) {
  JobAssets assets;
  assets.job_ = job;
  TAUT_TRY(assets.train_data_, open_data(job, pb::TRAIN));
  model::GraphOptions options;
  options.phase = pb::TRAIN;
  options.record = record_of(*assets.train_data_);
  TAUT_TRY(assets.train_, model::build_graph(job.net_param(), options));
  TAUT_TRY(assets.train_batch_, batch_of(assets.train_));
  if (job.global_batch() && members > 1) {
    if (assets.train_batch_ % members != 0) {
      return invalid(fmt::format("global_batch: a batch of {} cannot be split over {} members",
                                 assets.train_batch_, members));
    }
    options.batch = assets.train_batch_ / members;
    assets.train_batch_ = options.batch;
    TAUT_TRY(assets.train_, model::build_graph(job.net_param(), options));
  }
  assets.train_transform_ = transform_of(assets.train_);
  TAUT_TRY(check_labels(*assets.train_data_, assets.train_));

  if (job.solver_param().test_iter_size() == 0) return assets;
  TAUT_TRY(assets.test_data_, open_data(job, pb::TEST));
  const model::GraphOptions test{pb::TEST, record_of(*assets.test_data_), 0};
  TAUT_TRY(model::Graph graph, model::build_graph(job.net_param(), test));
  assets.test_ = std::make_unique<model::Graph>(std::move(graph));
  TAUT_TRY(assets.test_batch_, batch_of(*assets.test_));
  assets.test_transform_ = transform_of(*assets.test_);
  TAUT_TRY(check_labels(*assets.test_data_, *assets.test_));
  return assets;
}

Result<Replica> JobAssets::make_replica(Backend& backend, std::uint32_t slot, std::uint32_t slots,
                                        Clock start) const {
  Replica replica;
  replica.batch = train_batch_;
  replica.net = std::make_unique<Net>(train_, backend, Net::Options{job_.seed(), slot});
  TAUT_TRY(auto sampler,
           data::shuffled_sampler(train_data_->size(), {slot, slots},
                                  static_cast<std::uint32_t>(train_batch_), job_.seed()));
  data::DataLoader::Options options;
  options.start = start;
  options.transform = train_transform_;
  TAUT_TRY(replica.loader, data::DataLoader::start(train_data_, std::move(sampler), options));
  return replica;
}

Result<std::unique_ptr<data::DataLoader>> JobAssets::test_loader() const {
  TAUT_TRY(auto sampler,
           data::sequential_sampler(test_data_->size(), static_cast<std::uint32_t>(test_batch_)));
  data::DataLoader::Options options;
  options.transform = test_transform_;
  return data::DataLoader::start(test_data_, std::move(sampler), options);
}

}  // namespace taut::worker
