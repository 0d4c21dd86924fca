#include "worker/model/weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "worker/model/job/job_nets.hpp"
#include "worker/model/pytorch/state_dict.hpp"

namespace taut::model {
namespace {

/// Names are compared with '.' in place of '/': layers' own names contain both.
std::string comparable(std::string name) {
  std::ranges::replace(name, '/', '.');
  return name;
}

/// Names that are equal under that comparison, grouped.
using Names = std::map<std::string, std::size_t>;

/// Every table's names. If a shared table and a layer claim the same one, the table gets it.
/// counterparts  PyTorch's names
Names table_names(const Graph& graph, const std::vector<pytorch::Counterpart>& counterparts) {
  Names names;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    names.try_emplace(comparable(graph.parameters[i].name), i);
  }
  for (const Node& node : graph.nodes) {
    const std::string& layer = node.definition.name();
    for (std::size_t i = 0; i < node.parameters.size(); ++i) {
      names.try_emplace(comparable(fmt::format("{}/{}", layer, i)), node.parameters[i]);
    }
  }
  for (const pytorch::Counterpart& one : counterparts) {
    // Others are stored differently, or are only a part of the table.
    if (one.layout != pytorch::Layout::kSame || !one.addend.empty()) continue;
    names.try_emplace(comparable(one.tensor), one.table);
  }
  return names;
}

/// Errors  mismatch: a state_dict whose tensors are not our tables
Result<void> check_stored_alike(const WeightsFile& file,
                                const std::vector<pytorch::Counterpart>& counterparts) {
  if (!pytorch::is_state_dict(file, counterparts) ||
      !pytorch::needs_conversion(file, counterparts)) {
    return ok();
  }
  const std::string path = file.file.path().string();
  return make_error(
      ErrorCode::kMismatch,
      fmt::format("{}: is a PyTorch state_dict with tensors that are stored in another way here "
                  "(gates, biases or running statistics); convert it: tautline export {} --net "
                  "JOB --output FILE.safetensors",
                  path, path));
}

/// The first layer that uses a table.
const std::string& layer_of(const Graph& graph, std::size_t table) {
  const auto owner = std::ranges::find_if(graph.nodes, [table](const Node& node) {
    return std::ranges::find(node.parameters, table) != node.parameters.end();
  });
  return owner->definition.name();
}

/// Extents without leading ones: Caffe once gave every blob four.
std::vector<std::uint64_t> without_leading_ones(const std::vector<std::uint64_t>& shape) {
  const auto first = std::ranges::find_if(shape, [](std::uint64_t extent) { return extent != 1; });
  return {first, shape.end()};
}

Result<void> check_tensor(const Graph& graph, std::size_t table, const StoredTensor& tensor,
                          const std::string& file) {
  const TableSpec& spec = graph.parameters[table];
  if (spec.rows) {
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("{}: {} is for \"{}\" of layer \"{}\", which is kept by rows "
                    "(embed_param.by_rows): those start from the filler; rename the layer to omit "
                    "it, or continue from a checkpoint with resume",
                    file, tensor.name, spec.name, layer_of(graph, table)));
  }
  const std::vector<std::uint64_t> expected(spec.shape.begin(), spec.shape.end());
  if (without_leading_ones(expected) != without_leading_ones(tensor.shape)) {
    return make_error(
        ErrorCode::kMismatch,
        fmt::format(
            "{}: {} has shape {}, but layer \"{}\" requires {} for \"{}\"; rename the layer "
            "to omit it",
            file, tensor.name, fmt::join(tensor.shape, "x"), layer_of(graph, table),
            to_string(spec.shape), spec.name));
  }
  if (!reads_as_floats(tensor.type)) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: {} holds {}; F32, F16, BF16 and F64 are read as numbers",
                                  file, tensor.name, to_string(tensor.type)));
  }
  return ok();
}

/// A few names, and how many more there are.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxShown = 6;
  const auto shown = std::span(names).first(std::min(names.size(), kMaxShown));
  const std::size_t more = names.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : std::string());
}

Error nothing_matches(const Graph& graph, const std::vector<WeightsFile>& files) {
  std::vector<std::string> theirs;
  for (const WeightsFile& file : files) {
    for (const StoredTensor& tensor : file.tensors) theirs.push_back(tensor.name);
  }
  std::vector<std::string> ours;
  for (const TableSpec& table : graph.parameters) ours.push_back(table.name);
  return make_error(
      ErrorCode::kMismatch,
      fmt::format("{}: has nothing with the names of the net's layers; it has {}, the net has {}",
                  files.back().file.path().string(), theirs.empty() ? "nothing" : some_of(theirs),
                  ours.empty() ? "no parameters" : some_of(ours)));
}

}  // namespace

std::string WeightsMatch::summary() const {
  std::string line =
      fmt::format("{} of {} parameters found", found.size(), found.size() + missing.size());
  if (!missing.empty()) {
    line += fmt::format("; {} start from their fillers: {}", missing.size(), some_of(missing));
  }
  if (!not_used.empty()) {
    line += fmt::format("; {} in the file not used: {}", not_used.size(), some_of(not_used));
  }
  return line;
}

Result<WeightsMatch> match_weights(const Graph& graph, const std::vector<WeightsFile>& files) {
  const auto found_names = pytorch::counterparts_of(graph, {});
  const auto counterparts = found_names ? found_names.value() : std::vector<pytorch::Counterpart>();
  const Names names = table_names(graph, counterparts);
  std::map<std::size_t, WeightsMatch::Found> found;
  WeightsMatch match;
  for (std::size_t file = 0; file < files.size(); ++file) {
    const std::string path = files[file].file.path().string();
    TAUT_TRY(check_stored_alike(files[file], counterparts));
    std::map<std::size_t, std::size_t> given;  // tensors by table
    for (std::size_t i = 0; i < files[file].tensors.size(); ++i) {
      const StoredTensor& tensor = files[file].tensors[i];
      const auto name = names.find(comparable(tensor.name));
      if (name == names.end()) {
        match.not_used.push_back(tensor.name);
        continue;
      }
      const std::size_t table = name->second;
      TAUT_TRY(check_tensor(graph, table, tensor, path));
      const auto [other, first] = given.try_emplace(table, i);
      // A shared parameter may be stored under each of its layers; the first one is used.
      const std::string& before = files[file].tensors[other->second].name;
      if (!first && comparable(before) == comparable(tensor.name)) {
        return make_error(ErrorCode::kMismatch,
                          fmt::format("{}: {} and {} both match the name \"{}\"", path, before,
                                      tensor.name, graph.parameters[table].name));
      }
      if (first) found[table] = {table, file, i};
    }
  }
  for (std::size_t table = 0; table < graph.parameters.size(); ++table) {
    const auto entry = found.find(table);
    if (entry == found.end()) {
      match.missing.push_back(graph.parameters[table].name);
    } else {
      match.found.push_back(entry->second);
    }
  }
  if (match.found.empty()) return nothing_matches(graph, files);
  return match;
}

Result<std::vector<WeightsFile>> open_weights_of(const pb::Job& job) {
  std::vector<WeightsFile> files;
  for (const std::string& path : job.weights()) {
    auto file = open_weights(path);
    if (!file) {
      return make_error(file.error().code, fmt::format("weights: {}", file.error().message));
    }
    files.push_back(std::move(file.value()));
  }
  return files;
}

Result<std::string> initialize_from_weights(const pb::Job& job, Graph& graph) {
  if (job.weights().empty()) return std::string();
  TAUT_TRY(const std::vector<WeightsFile> files, open_weights_of(job));
  TAUT_TRY(const WeightsMatch match, match_weights(graph, files));
  std::map<std::size_t, std::string> digests;
  for (const WeightsMatch::Found& found : match.found) {
    const WeightsFile& file = files[found.file];
    std::string& digest = digests[found.file];
    if (digest.empty()) {
      TAUT_TRY(digest, file.file.sha256());
    }
    const StoredTensor& tensor = file.tensors[found.tensor];
    graph.parameters[found.table].origin =
        TensorPlace{file.file.path().string(), digest, tensor.offset, tensor.type};
  }
  return match.summary();
}

Result<std::string> match_job_weights(const pb::Job& job, const GraphOptions& options) {
  if (job.weights().empty()) return std::string();
  TAUT_TRY(const Graph graph, build_graph(net_of(job, pb::TRAIN), options));
  TAUT_TRY(const std::vector<WeightsFile> files, open_weights_of(job));
  TAUT_TRY(const WeightsMatch match, match_weights(graph, files));
  return match.summary();
}

}  // namespace taut::model
