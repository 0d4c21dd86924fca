#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "cli/commands/trained/exports.hpp"
#include "cli/job_records.hpp"
#include "cli/views/draw.hpp"
#include "common/files/safetensors.hpp"
#include "proto/config/text.hpp"
#include "worker/model/job/job_nets.hpp"
#include "worker/model/pytorch/state_dict.hpp"

namespace taut::cli {
namespace {

constexpr std::size_t kBlockFloats = 1 << 20;

Result<void> append(const model::pytorch::StateTensor& tensor, const model::ReadTable& read,
                    std::vector<float>& block, safetensors::Writer& writer) {
  if (tensor.is_count) {
    const std::vector<std::byte> zero(bytes_of(ElementType::kI64));
    return writer.append(zero);
  }
  const std::uint64_t count = model::element_count(tensor.shape);
  for (std::uint64_t first = 0; first < count; first += block.size()) {
    const auto part = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), count - first)));
    TAUT_TRY(tensor.numbers(read, first, part));
    TAUT_TRY(writer.append(part));
  }
  return ok();
}

}  // namespace

Result<void> export_pytorch(const model::SavedModel& saved, const std::string& path,
                            const std::string& names) {
  model::pytorch::Renames renames;
  if (!names.empty()) {
    TAUT_TRY(renames, model::pytorch::Renames::read(names));
  }
  TAUT_TRY(const model::Graph graph,
           model::build_graph(model::net_of(saved.job(), pb::TRAIN),
                              records_of(saved.job()).records.graph_options(pb::TRAIN)));
  TAUT_TRY(const auto counterparts, model::pytorch::counterparts_of(graph, renames));
  TAUT_TRY(const model::ReadTable read, saved.tables_of(graph));
  const auto tensors = model::pytorch::state_dict_of(counterparts);
  std::vector<safetensors::TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    specs.push_back({tensor.name,
                     {tensor.shape.begin(), tensor.shape.end()},
                     tensor.is_count ? ElementType::kI64 : ElementType::kF32});
  }
  // "format" tells PyTorch's readers that these are its tensors.
  const safetensors::Metadata notes{{"format", "pt"}, {model::kJobNote, to_text(saved.job())}};
  TAUT_TRY(auto writer, safetensors::Writer::create(path, specs, notes));
  std::vector<float> block(kBlockFloats);
  for (const auto& tensor : tensors) {
    TAUT_TRY(append(tensor, read, block, writer));
  }
  TAUT_TRY(writer.finish());
  fmt::print("{}: {}\n", path, counted(static_cast<std::int64_t>(tensors.size()), "tensor"));
  return ok();
}

}  // namespace taut::cli
