#include "worker/tools/trained_net.hpp"

#include <utility>

#include "worker/tools/run_tool.hpp"

namespace taut::worker {

Result<TrainedNet> TrainedNet::create(const model::Graph& graph, const model::ReadTable& values,
                                      Backend& backend) {
  TrainedNet net;
  net.stream_ = backend.make_stream();
  net.net_ = std::make_unique<Net>(graph, backend, Net::Options{});
  std::vector<float> host;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    host.resize(graph.parameters[i].count());
    TAUT_TRY(values(i, 0, host));
    DeviceBuffer& buffer = net.parameters_.emplace_back(
        backend.allocate_floats(host.size(), BufferKind::kParameter, graph.parameters[i].name));
    backend.copy_to_device(*net.stream_, host, buffer.as<float>());
    net.stream_->finish();
    net.net_->bind_value(i, buffer.as<float>());
  }
  return net;
}

void TrainedNet::forward(const data::Batch& batch) {
  net_->set_batch(*stream_, batch.spans());
  for (std::size_t layer = 0; layer < net_->layer_count(); ++layer) {
    net_->forward(layer, *stream_, Clock(0));
  }
}

Result<OpenedModel> open_model(const pb::ToolRequest& request) {
  TAUT_TRY(model::SavedModel saved, model::SavedModel::open(request.model(), request.net()));
  pb::Job job = saved.job();
  if (!request.data().empty()) {
    job.clear_data();
    job.add_data()->set_folder(request.data());
  }
  return OpenedModel{std::move(saved), std::move(job)};
}

Result<void> run_tool(const pb::ToolRequest& request, Backend& backend) {
  switch (request.kind()) {
    case pb::ToolRequest::TEST:
      return test_model(request, backend);
    case pb::ToolRequest::PREDICT:
      return predict(request, backend);
    case pb::ToolRequest::SAMPLE:
      return sample_text(request, backend);
    case pb::ToolRequest::OUTPUTS:
      return save_outputs(request, backend);
    default:
      return invalid("the request is of an unknown kind");
  }
}

}  // namespace taut::worker
