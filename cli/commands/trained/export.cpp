#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/commands/trained/exports.hpp"
#include "cli/job_records.hpp"
#include "cli/table_file.hpp"
#include "cli/views/draw.hpp"
#include "proto/formats/caffe_hdf5.hpp"
#include "proto/formats/caffe_model.hpp"
#include "worker/model/job/job_nets.hpp"
#include "worker/model/saved_model.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string model;
  std::string net;
  std::string output;
  std::string onnx;
  std::string pytorch;
  std::string names;
  std::uint32_t batch = 0;
};

/// A model's parameters with whatever is needed to write them.
struct Exported {
  model::Graph graph;
  model::ReadTable read;
};

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

/// Writes --output.
Result<void> export_tables(const ExportOptions& options, const model::SavedModel& saved) {
  TAUT_TRY(const Format format, format_of(options.output));
  const bool is_caffe = format != Format::kSafetensors;
  Exported exported;
  if (saved.checkpoint() != nullptr && !is_caffe) {
    // Whatever happened to the data, a checkpoint knows its tables.
    exported.graph.parameters = saved.checkpoint()->tables();
  } else {
    TAUT_TRY(exported.graph,
             model::build_graph(model::net_of(saved.job(), pb::TRAIN),
                                records_of(saved.job()).records.graph_options(pb::TRAIN)));
  }
  TAUT_TRY(exported.read, saved.tables_of(exported.graph));
  TAUT_TRY(is_caffe ? write_caffe(options, format, exported)
                    : write_tables(options.output, exported.graph.parameters, exported.read,
                                   saved.job()));
  std::uint64_t count = 0;
  for (const TableSpec& table : exported.graph.parameters) count += table.count();
  fmt::print("{}: {} in {}\n", options.output, counted(static_cast<std::int64_t>(count), "number"),
             counted(static_cast<std::int64_t>(exported.graph.parameters.size()), "table"));
  return ok();
}

Result<void> run(const ExportOptions& options) {
  TAUT_TRY(model::SavedModel saved, model::SavedModel::open(options.model, options.net));
  // With --pytorch the names are those of the file that is written.
  if (!options.names.empty() && options.pytorch.empty()) {
    if (saved.checkpoint() != nullptr) {
      return invalid("--names is for PyTorch's files: give --pytorch FILE, or a .safetensors");
    }
    TAUT_TRY(auto names, model::pytorch::Renames::read(options.names));
    saved.rename(std::move(names));
  }
  if (!options.output.empty()) {
    TAUT_TRY(export_tables(options, saved));
  }
  if (!options.onnx.empty()) {
    TAUT_TRY(export_onnx(saved, options.onnx, options.batch));
  }
  if (!options.pytorch.empty()) {
    TAUT_TRY(export_pytorch(saved, options.pytorch, options.names));
  }
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
            "A file of the parameters to write: .safetensors, .caffemodel or .caffemodel.h5")
      .value("FILE")
      .check([](const std::string& path) {
        const auto format = format_of(path);
        return format ? std::string() : format.error().message;
      });
  command.text("--onnx", options->onnx, "The ONNX file to write: the TEST net with its parameters")
      .value("FILE");
  constexpr std::uint64_t kMaxBatch = 1 << 20;
  command.whole_number("--batch", options->batch,
                       "--onnx: fixes the records of a batch (default: any number)", 1, kMaxBatch);
  command
      .text("--pytorch", options->pytorch,
            "The .safetensors file to write: the state_dict of a PyTorch module")
      .value("FILE");
  command
      .text("--names", options->names,
            "PyTorch's names, of --pytorch's file or else of MODEL: a line \"LAYER NAME\" for each")
      .value("FILE");
  command.on_run([options, &status] {
    if (options->output.empty() && options->onnx.empty() && options->pytorch.empty()) {
      throw UsageError("give a file to write: --output FILE, --onnx FILE or --pytorch FILE");
    }
    if (options->batch > 0 && options->onnx.empty()) {
      throw UsageError("--batch: is for --onnx FILE, which it is given without");
    }
    const Result<void> done = run(*options);
    if (!done) status = fail("export", done.error().message);
  });
}

}  // namespace taut::cli
