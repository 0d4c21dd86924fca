#include "worker/replica.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "common/log.hpp"
#include "proto/config/exchange/settle_rows.hpp"
#include "proto/config/settle_filler.hpp"
#include "worker/data/open_source.hpp"
#include "worker/device/batch_memory.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/weights.hpp"

namespace taut::worker {
namespace {

/// Errors: invalid, a label for which a layer has no output.
Result<void> check_labels(const FedGraph& fed) {
  for (const model::Node& node : fed.graph.nodes) {
    const auto source = fed.sources.find(node.definition.name());
    if (!node.is_fed || source == fed.sources.end()) continue;
    for (std::size_t top = 0; top < node.tops.size(); ++top) {
      const model::LabelLimits limits = model::label_limits(fed.graph, node.tops[top]);
      if (limits.classes == 0) continue;
      TAUT_TRY(source->second->check_labels(
          {.field = top, .classes = limits.classes, .ignored = limits.ignored}));
    }
  }
  return ok();
}

/// The blobs with row numbers: those of layers by rows, and those of sources that write bits.
/// Errors: invalid, a layer reads numbers as floats that are too large for a float.
Result<std::vector<data::RowNumbers>> row_numbers_of(const FedGraph& fed) {
  std::map<std::size_t, data::RowNumbers> found;  // by blob
  for (const model::RowParameter& one : model::row_parameters(fed.graph)) {
    const auto [place, is_new] = found.try_emplace(
        one.fed, data::RowNumbers{.blob = one.fed, .rows = one.rows, .layer = one.layer});
    if (is_new || place->second.rows <= one.rows) continue;
    place->second.rows = one.rows;
    place->second.layer = one.layer;
  }
  std::size_t blob = 0;  // the first one of a node
  for (const model::Node& node : fed.graph.nodes) {
    if (!node.is_fed) continue;
    const std::size_t first = blob;
    blob += node.tops.size();
    const auto source = fed.sources.find(node.definition.name());
    if (source == fed.sources.end() || !source->second->has_row_numbers()) continue;
    constexpr std::uint64_t kWholeFloats = 1ULL << 24U;
    const auto [place, is_new] =
        found.try_emplace(first, data::RowNumbers{.blob = first,
                                                  .as_places = false,
                                                  .rows = kWholeFloats,
                                                  .layer = node.definition.name()});
    place->second.are_bits = true;
    const std::uint64_t features = node.definition.sparse_data_param().features();
    if (!is_new || features <= kWholeFloats) continue;
    return invalid(fmt::format(
        "layer \"{}\": sparse_data_param.features is {}, and \"{}\" is read by no Embed layer with "
        "by_rows: only those read numbers beyond {}; say embed_param {{ by_rows: true }}, or give "
        "it fewer features",
        node.definition.name(), features, fed.graph.blobs[node.tops[0]].name, kWholeFloats));
  }
  std::vector<data::RowNumbers> numbers;
  for (auto& [place, one] : found) numbers.push_back(std::move(one));
  return numbers;
}

}  // namespace

Result<FedGraph> open_phase(const pb::Job& job, const model::NetChoice& choice,
                            const PhaseOptions& requested) {
  FedGraph fed;
  const bool trains = choice.phase == pb::TRAIN;
  model::GraphOptions options;
  options.phase = choice.phase;
  options.batch = requested.batch;
  if (trains && job.global_batch()) options.batch_divisor = requested.members;
  if (trains) options.batch_divisor *= requested.devices;
  TAUT_TRY(const auto layers, model::data_of(job, choice));
  const data::Part part = trains ? data::Part::kTrain : data::Part::kTest;
  for (const auto& [layer, place] : layers) {
    TAUT_TRY(auto source,
             data::open_source(layer, {place.folder, place.images, place.labels}, part));
    options.records[layer.name()] = source->fields();
    fed.sources[layer.name()] = std::move(source);
  }
  TAUT_TRY(fed.graph, model::build_graph(model::net_of(job, choice), options));
  if (model::fed_blobs(fed.graph).empty()) {
    return invalid(fmt::format("net \"{}\" has no Data layer to feed it in phase {}",
                               fed.graph.name, pb::Phase_Name(choice.phase)));
  }
  TAUT_TRY(check_labels(fed));
  TAUT_TRY(row_numbers_of(fed));
  return fed;
}

namespace {

/// The batch of a node's tops, which is the same for all.
Result<std::uint32_t> batch_of(const FedGraph& fed, const model::Node& node) {
  const auto source = fed.sources.find(node.definition.name());
  const model::Blob& first = fed.graph.blobs[node.tops[0]];
  const std::size_t axis = source == fed.sources.end() ? 0 : source->second->fields()[0].batch_axis;
  if (axis < first.shape.size()) return static_cast<std::uint32_t>(first.shape[axis]);
  return invalid(fmt::format("layer \"{}\": top \"{}\" of shape {} cannot hold a batch",
                             node.definition.name(), first.name, model::to_string(first.shape)));
}

/// Errors: invalid, an Input layer whose shapes differ from the records'.
Result<void> check_feed(const FedGraph& fed, const model::Node& node, const data::Feed& feed) {
  for (std::size_t top = 0; top < node.tops.size(); ++top) {
    const model::Blob& blob = fed.graph.blobs[node.tops[top]];
    if (model::element_count(blob.shape) == feed.elements()[top]) continue;
    return invalid(fmt::format(
        "layer \"{}\": top \"{}\" has shape {}, and a batch of the data set's records has {} "
        "elements",
        node.definition.name(), blob.name, model::to_string(blob.shape), feed.elements()[top]));
  }
  return ok();
}

bool skips_corrupt(const pb::LayerParameter& layer) {
  return layer.data_param().on_corrupt() == pb::SKIP ||
         layer.image_data_param().on_corrupt() == pb::SKIP;
}

Result<std::unique_ptr<data::Feed>> make_dummy_feed(const FedGraph& fed, const model::Node& node,
                                                    const data::FeedOptions& options) {
  const pb::DummyDataParameter& given = node.definition.dummy_data_param();
  std::vector<data::DummyTop> tops;
  for (std::size_t i = 0; i < node.tops.size(); ++i) {
    const model::Shape& shape = fed.graph.blobs[node.tops[i]].shape;
    const auto place = [&](int count) { return count == 1 ? 0 : static_cast<int>(i); };
    data::DummyTop top;
    top.elements = model::element_count(shape);
    if (given.classes_size() > 0) top.classes = given.classes(place(given.classes_size()));
    if (given.data_filler_size() > 0) {
      TAUT_TRY(top.filler,
               settle_filler(given.data_filler(place(given.data_filler_size())), shape));
    }
    tops.push_back(top);
  }
  return data::dummy_feed(std::move(tops), options, node.definition.name());
}

/// The feed of a node: its source's records, or a filler.
Result<std::unique_ptr<data::Feed>> make_feed(const FedGraph& fed, const model::Node& node,
                                              data::FeedOptions options) {
  const auto source = fed.sources.find(node.definition.name());
  if (source == fed.sources.end()) return make_dummy_feed(fed, node, options);
  TAUT_TRY(options.batch, batch_of(fed, node));
  options.skip_corrupt = skips_corrupt(node.definition);
  TAUT_TRY(auto feed, data::record_feed(source->second, options, node.tops.size()));
  TAUT_TRY(check_feed(fed, node, *feed));
  return feed;
}

}  // namespace

Result<std::unique_ptr<data::DataLoader>> start_loader(const FedGraph& fed,
                                                       const data::FeedOptions& options,
                                                       const data::DataLoader::Options& loading) {
  std::vector<std::unique_ptr<data::Feed>> feeds;
  for (const model::Node& node : fed.graph.nodes) {
    if (!node.is_fed) continue;
    TAUT_TRY(auto feed, make_feed(fed, node, options));
    feeds.push_back(std::move(feed));
  }
  data::DataLoader::Options settled = loading;
  TAUT_TRY(settled.row_numbers, row_numbers_of(fed));
  return data::DataLoader::start(std::move(feeds), std::move(settled));
}

std::int64_t FedGraph::batch() const {
  const model::Node* first = nullptr;
  for (const model::Node& node : graph.nodes) {
    if (node.is_fed && first == nullptr) first = &node;
  }
  const auto batch = first == nullptr ? Result<std::uint32_t>(0U) : batch_of(*this, *first);
  return batch ? batch.value() : 0;
}

Result<JobAssets> JobAssets::open(const pb::Job& job, std::uint32_t members,
                                  std::uint32_t devices) {
  JobAssets assets;
  assets.job_ = job;
  assets.devices_ = devices;
  for (const model::NetChoice& choice : model::nets_of(job)) {
    TAUT_TRY(FedGraph fed, open_phase(job, choice, {.members = members, .devices = devices}));
    if (choice.phase == pb::TRAIN) {
      assets.train_ = std::move(fed);
    } else {
      assets.tests_.push_back(std::move(fed));
    }
  }
  // A resumed job has all values in its checkpoint.
  if (!job.has_resume()) {
    TAUT_TRY(const std::string weights, model::initialize_from_weights(job, assets.train_.graph));
    if (!weights.empty()) log::info("weights: {}", weights);
  }
  if (job.balance()) {
    TAUT_TRY(assets.check_parts());
  }
  if (const auto rows = model::row_parameters(assets.train_.graph); !rows.empty()) {
    if (const auto misfit = misfit_of_rows(job)) return invalid(misfit->what);
    if (devices == 1) return assets;
    return invalid(fmt::format(
        "layer \"{}\": this worker has several devices, which divide its batch, and "
        "embed_param.by_rows is for one; give it one device, or start a worker for each",
        rows[0].layer));
  }
  return assets;
}

/// The training net for another batch, fed from the same sources.
Result<FedGraph> JobAssets::train_of(std::int64_t batch) const {
  FedGraph fed;
  fed.sources = train_.sources;
  model::GraphOptions options;
  options.phase = pb::TRAIN;
  options.batch = batch;
  for (const auto& [layer, source] : fed.sources) options.records[layer] = source->fields();
  for (const model::NetChoice& choice : model::nets_of(job_)) {
    if (choice.phase != pb::TRAIN) continue;
    TAUT_TRY(fed.graph, model::build_graph(model::net_of(job_, choice), options));
  }
  return fed;
}

/// Errors    invalid: the batch of the training net cannot change
Result<void> JobAssets::check_parts() const {
  if (devices_ > 1) {
    return invalid(
        "balance: this worker has several devices, which divide its batch; give it one device, or "
        "start a worker for each");
  }
  for (const model::Node& node : train_.graph.nodes) {
    if (!node.is_fed) continue;
    const auto source = train_.sources.find(node.definition.name());
    if (source == train_.sources.end() || !source->second->batch_may_change()) {
      return invalid(fmt::format(
          "balance: the batch of layer \"{}\" cannot change: {}; omit balance",
          node.definition.name(),
          source == train_.sources.end() ? "it is filled, not read"
                                         : "each of its records continues the one before it"));
    }
    TAUT_TRY(const std::uint32_t batch, batch_of(train_, node));
    if (batch == train_batch()) continue;
    return invalid(
        fmt::format("balance: layer \"{}\" has batches of {}, and the first one of {}; give all "
                    "data layers the same batch_size",
                    node.definition.name(), batch, train_batch()));
  }
  const auto larger = train_of(train_batch() + 1);
  if (larger) return ok();
  return invalid(fmt::format("balance: the net has no batch of {}: {}", train_batch() + 1,
                             larger.error().message));
}

std::shared_ptr<Net> JobAssets::make_net(Backend& backend, std::uint32_t draws) const {
  return std::make_shared<Net>(train_.graph, backend, Net::Options{job_.seed(), draws});
}

Result<Replica> JobAssets::make_replica(Backend& backend, std::uint32_t slot, std::uint32_t slots,
                                        Clock start, std::uint32_t device,
                                        const ReplicaOptions& sharing) const {
  Replica replica;
  replica.backend = &backend;
  replica.rows = model::row_parameters(train_.graph);
  if (sharing.part) {
    TAUT_TRY(change_part(replica, slot, start, *sharing.part, sharing));
    return replica;
  }
  replica.batch = train_.batch();
  replica.net = sharing.net ? sharing.net : make_net(backend, slot + device * slots);
  const data::Share share{.slot = slot, .slots = slots, .part = device, .parts = devices_};
  TAUT_TRY(start_data(replica, train_, share, start, sharing));
  return replica;
}

/// Starts a replica's loader at a clock, and makes memory for its batches if there is none yet.
Result<void> JobAssets::start_data(Replica& replica, const FedGraph& fed, const data::Share& share,
                                   Clock start, const ReplicaOptions& sharing) const {
  data::FeedOptions options;
  options.part = data::Part::kTrain;
  options.share = share;
  options.seed = job_.seed();
  data::DataLoader::Options loading;
  loading.loading = sharing.loading;
  loading.start = Clock(start.value() * job_.solver_param().iter_size());
  if (!replica.backend->shares_host_memory() && replica.batch_memory == nullptr) {
    replica.batch_memory = std::make_unique<BatchMemory>(*replica.backend);
  }
  if (replica.batch_memory != nullptr) loading.memory = replica.batch_memory.get();
  if (sharing.has_data) {
    TAUT_TRY(replica.loader, start_loader(fed, options, loading));
  } else {
    TAUT_TRY(replica.loader, data::DataLoader::start({}, loading));
  }
  return ok();
}

Result<void> JobAssets::change_part(Replica& replica, std::uint32_t slot, Clock start,
                                    const BatchShares::Part& part,
                                    const ReplicaOptions& sharing) const {
  // First, so that the old and the new net and loader never need memory at the same time.
  replica.loader.reset();
  replica.net.reset();
  TAUT_TRY(const FedGraph fed, train_of(part.records));
  replica.batch = part.records;
  replica.net = std::make_shared<Net>(fed.graph, *replica.backend, Net::Options{job_.seed(), slot});
  return start_data(replica, fed, {.total = part.total, .first = part.first}, start, sharing);
}

Result<std::unique_ptr<data::DataLoader>> JobAssets::test_loader(
    std::size_t test, std::pmr::memory_resource* memory) const {
  data::FeedOptions options;
  options.part = data::Part::kTest;
  options.seed = job_.seed();
  data::DataLoader::Options loading;
  loading.memory = memory;
  return start_loader(tests_[test], options, loading);
}

}  // namespace taut::worker
