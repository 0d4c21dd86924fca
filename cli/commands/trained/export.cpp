#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/job_records.hpp"
#include "cli/views/draw.hpp"
#include "common/files/safetensors.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/caffe_hdf5.hpp"
#include "proto/formats/caffe_model.hpp"
#include "worker/model/job/job_nets.hpp"
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
  // "format" tells PyTorch's readers that these are its tensors.
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

enum class Format : std::uint8_t { kSafetensors, kCaffemodel, kCaffeHdf5 };

/// Errors: invalid, another ending.
Result<Format> format_of(const fs::path& output) {
  if (output.extension() == ".safetensors") return Format::kSafetensors;
  if (output.extension() == ".caffemodel") return Format::kCaffemodel;
  if (output.extension() == ".h5") return Format::kCaffeHdf5;
  return invalid(
      fmt::format("must be a .safetensors, a .caffemodel or a .caffemodel.h5 file, is {}",
                  command_line::in_quotes(output.string())));
}

Result<void> write_caffe(const ExportOptions& options, Format format, const Exported& exported) {
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
  const caffe::ReadBlob read = [&](std::size_t layer, std::size_t blob, std::uint64_t first,
                                   std::span<float> out) {
    return exported.read(graph.nodes[layer].parameters[blob], first, out);
  };
  if (format == Format::kCaffeHdf5) return caffe::write_hdf5_model(options.output, layers, read);
  return caffe::write_model(options.output, graph.name, layers, read);
}

Result<void> run(const ExportOptions& options) {
  TAUT_TRY(const Format format, format_of(options.output));
  const bool is_caffe = format != Format::kSafetensors;
  TAUT_TRY(const model::SavedModel saved, model::SavedModel::open(options.model, options.net));
  Exported exported;
  if (saved.checkpoint() != nullptr && !is_caffe) {
    // Whatever became of the data, a checkpoint knows its tables.
    exported.graph.parameters = saved.checkpoint()->tables();
  } else {
    TAUT_TRY(exported.graph,
             model::build_graph(model::net_of(saved.job(), pb::TRAIN),
                                records_of(saved.job()).records.graph_options(pb::TRAIN)));
  }
  TAUT_TRY(exported.read, saved.tables_of(exported.graph));
  TAUT_TRY(is_caffe ? write_caffe(options, format, exported)
                    : write_safetensors(options, saved, exported));
  std::uint64_t count = 0;
  for (const TableSpec& table : exported.graph.parameters) count += table.count();
  fmt::print("{}: {} in {}\n", options.output, counted(static_cast<std::int64_t>(count), "number"),
             counted(static_cast<std::int64_t>(exported.graph.parameters.size()), "table"));
  return ok();
}

}  // namespace

void add_export(Command& command, int& status) {
  auto options = std::make_shared<ExportOptions>();
  command
      .text("MODEL", options->model,
            "A checkpoint's folder, or a .safetensors, .caffemodel or .caffemodel.h5 file")
      .required()
      .value("FILE");
  command
      .text("--net", options->net,
            "The net, solver or job file, for a weights file that does not contain its net")
      .value("FILE");
  command
      .text("--output", options->output,
            "The file to write: .safetensors, .caffemodel or .caffemodel.h5")
      .required()
      .value("FILE")
      .check([](const std::string& path) {
        const auto format = format_of(path);
        return format ? std::string() : format.error().message;
      });
  command.on_run([options, &status] {
    const Result<void> done = run(*options);
    if (!done) status = fail("export", done.error().message);
  });
}

}  // namespace taut::cli
