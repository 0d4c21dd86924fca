#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/draw.hpp"
#include "cli/record_shape.hpp"
#include "common/safetensors.hpp"
#include "proto/caffe_model.hpp"
#include "proto/text.hpp"
#include "worker/model/saved_model.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlockFloats = 1 << 20;

struct ExportOptions {
  std::string model;
  std::string net;
  std::string output;
};

/// A model's parameters with whatever is needed to write them.
struct Exported {
  model::Graph graph;
  model::ReadTable read;
};

Result<void> write_safetensors(const ExportOptions& options, const model::SavedModel& saved,
                               const Exported& exported) {
  std::vector<safetensors::TensorSpec> specs;
  for (const TableSpec& table : exported.graph.parameters) {
    specs.push_back({table.name, {table.shape.begin(), table.shape.end()}});
  }
  // "format" tells PyTorch's readers that these are its kind of tensors.
  const safetensors::Metadata notes{{"format", "pt"}, {model::kJobNote, to_text(saved.job())}};
  TAUT_TRY(auto writer, safetensors::Writer::create(options.output, specs, notes));
  std::vector<float> block(kBlockFloats);
  for (std::size_t table = 0; table < specs.size(); ++table) {
    const std::uint64_t count = exported.graph.parameters[table].count();
    for (std::uint64_t first = 0; first < count; first += kBlockFloats) {
      const auto part = std::span(block).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(kBlockFloats, count - first)));
      TAUT_TRY(exported.read(table, first, part));
      TAUT_TRY(writer.append(part));
    }
  }
  return writer.finish();
}

Result<void> write_caffemodel(const ExportOptions& options, const Exported& exported) {
  const model::Graph& graph = exported.graph;
  std::vector<caffe::ModelLayer> layers;
  for (const model::Node& node : graph.nodes) {
    caffe::ModelLayer layer{node.definition.name(),
                            node.definition.type(),
                            {node.definition.bottom().begin(), node.definition.bottom().end()},
                            {node.definition.top().begin(), node.definition.top().end()},
                            {}};
    for (const std::size_t table : node.parameters) {
      layer.blobs.push_back(graph.parameters[table].shape);
    }
    layers.push_back(std::move(layer));
  }
  return caffe::write_model(
      options.output, graph.name, layers,
      [&](std::size_t layer, std::size_t blob, std::uint64_t first, std::span<float> out) {
        return exported.read(graph.nodes[layer].parameters[blob], first, out);
      });
}

Result<void> run(const ExportOptions& options) {
  const fs::path output = options.output;
  const bool is_caffe = output.extension() == ".caffemodel";
  if (!is_caffe && output.extension() != ".safetensors") {
    return invalid(
        fmt::format("--output {}: name a .safetensors or a .caffemodel file", options.output));
  }
  TAUT_TRY(const model::SavedModel saved, model::SavedModel::open(options.model, options.net));
  Exported exported;
  if (saved.checkpoint() != nullptr && !is_caffe) {
    // Whatever became of the data, a checkpoint knows its tables.
    exported.graph.parameters = saved.checkpoint()->tables();
  } else {
    TAUT_TRY(exported.graph,
             model::build_graph(saved.job().net_param(),
                                records_of(saved.job()).records.graph_options(pb::TRAIN)));
  }
  TAUT_TRY(exported.read, saved.tables_of(exported.graph));
  TAUT_TRY(is_caffe ? write_caffemodel(options, exported)
                    : write_safetensors(options, saved, exported));
  std::uint64_t count = 0;
  for (const TableSpec& table : exported.graph.parameters) count += table.count();
  fmt::print("{}: {} in {}\n", options.output, counted(static_cast<std::int64_t>(count), "number"),
             counted(static_cast<std::int64_t>(exported.graph.parameters.size()), "table"));
  return ok();
}

}  // namespace

void add_export(CLI::App& app, int& status) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand(
      "export", "Writes a trained model's parameters for other programs and for --weights");
  command
      ->add_option("MODEL", options->model,
                   "A checkpoint's folder, or a .safetensors or .caffemodel file")
      ->required();
  command
      ->add_option("--net", options->net,
                   "The net, solver or job file, for a weights file that does not name its net")
      ->type_name("FILE");
  command->add_option("--output", options->output, "The .safetensors or .caffemodel to write")
      ->required()
      ->type_name("FILE");
  command->footer("Example: tautline export runs/lenet/checkpoints --output lenet.safetensors");
  command->callback([options, &status] {
    const Result<void> done = run(*options);
    if (!done) status = fail("export", done.error().message);
  });
}

}  // namespace taut::cli
