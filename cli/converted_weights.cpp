#include "cli/converted_weights.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "cli/table_file.hpp"
#include "common/files/sha256.hpp"
#include "worker/model/job/job_nets.hpp"
#include "worker/model/pytorch/state_dict.hpp"
#include "worker/model/row_parameters.hpp"
#include "worker/model/weights.hpp"

namespace taut::cli {
namespace {

/// A file for these tables next to another one: two nets that start from it get two files.
std::filesystem::path place_for(const model::Graph& graph, std::filesystem::path file) {
  constexpr std::size_t kDigits = 8;
  std::string text;
  for (const TableSpec& table : graph.parameters) {
    text += table.name + " " + model::to_string(table.shape) + "\n";
  }
  Sha256 digest;
  digest.update(std::as_bytes(std::span(text)));
  file.replace_extension(
      fmt::format("tautline-{}.safetensors", digest.finish().substr(0, kDigits)));
  return file;
}

}  // namespace

Result<std::vector<std::string>> convert_state_dicts(pb::Job& job,
                                                     const model::GraphOptions& options) {
  std::vector<std::string> lines;
  if (job.weights().empty()) return lines;
  TAUT_TRY(const model::Graph graph, model::build_graph(model::net_of(job, pb::TRAIN), options));
  // A table by rows starts from its filler: match_weights() says so.
  if (!model::row_parameters(graph).empty()) return lines;
  const auto counterparts = model::pytorch::counterparts_of(graph, {});
  if (!counterparts) return lines;  // so no file can be a state_dict
  TAUT_TRY(const std::vector<WeightsFile> files, model::open_weights_of(job));
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!model::pytorch::is_state_dict(files[i], counterparts.value()) ||
        !model::pytorch::needs_conversion(files[i], counterparts.value())) {
      continue;
    }
    TAUT_TRY(const auto read, model::pytorch::tables_from(files[i], graph, counterparts.value()));
    std::string& file = *job.mutable_weights(static_cast<int>(i));
    const std::filesystem::path place = place_for(graph, file);
    TAUT_TRY(write_tables(place, graph.parameters, read, job));
    lines.push_back(fmt::format("{} is a PyTorch state_dict; its numbers in our order are in {}",
                                file, place.string()));
    file = place.string();
  }
  return lines;
}

}  // namespace taut::cli
