#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/commands/trained/exports.hpp"
#include "cli/job_records.hpp"
#include "cli/views/draw.hpp"
#include "proto/formats/onnx/model_file.hpp"
#include "worker/export/onnx/translate_net.hpp"
#include "worker/model/job/job_nets.hpp"

namespace taut::cli {
namespace {

/// "data Nx1x28x28, mask 64xN".
std::string values_text(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values) {
  std::string text;
  for (const onnx::ValueInfoProto& value : values) {
    text += (text.empty() ? "" : ", ") + value.name() + " ";
    std::string shape;
    for (const auto& dim : value.type().tensor_type().shape().dim()) {
      const std::string extent = dim.has_dim_value()   ? std::to_string(dim.dim_value())
                                 : dim.has_dim_param() ? dim.dim_param()
                                                       : std::string("?");
      shape += (shape.empty() ? "" : "x") + extent;
    }
    text += shape.empty() ? "1 number" : shape;
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

Result<void> export_onnx(const model::SavedModel& saved, const std::string& path,
                         std::int64_t batch) {
  const JobRecords known = records_of(saved.job());
  for (const std::string& layer : known.unknown) {
    fmt::print(stderr,
               "warning: the data of layer \"{}\" is not here; its records are taken to have "
               "their likely shape: see the input's\n",
               layer);
  }
  const auto build = [&](std::int64_t records) {
    model::GraphOptions options = known.records.graph_options(pb::TEST);
    if (records > 0) options.batch = records;
    return model::build_graph(model::net_of(saved.job(), pb::TEST), options);
  };
  TAUT_TRY(const onnx::OnnxNet net, onnx::translate_net(build, batch));
  TAUT_TRY(const model::ReadTable read, saved.tables_of(net.net));
  std::vector<onnx::StreamedTensor> tensors;
  for (const onnx::ParameterTensor& parameter : net.parameters) {
    tensors.push_back({parameter.name, parameter.dims,
                       [&read, &parameter](std::uint64_t first, std::span<float> out) {
                         return parameter.numbers(read, first, out);
                       }});
  }
  TAUT_TRY(onnx::write_model(path, net.graph, tensors));
  fmt::print("{}: {} to {}; {}, {}\n", path, values_text(net.graph.input()),
             values_text(net.graph.output()),
             counted(static_cast<std::int64_t>(net.graph.node_size()), "operator"),
             net.any_batch ? "any batch" : "the batch is fixed");
  return ok();
}

}  // namespace taut::cli
