#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cli/commands/trained/exports.hpp"
#include "cli/job_records.hpp"
#include "cli/table_file.hpp"
#include "cli/views/draw.hpp"
#include "common/files/safetensors.hpp"
#include "worker/model/job/job_nets.hpp"
#include "worker/model/pytorch/state_dict.hpp"

namespace taut::cli {
namespace {

Result<void> append(const model::pytorch::StateTensor& tensor, const model::ReadTable& read,
                    safetensors::Writer& writer) {
  if (tensor.is_count) {
    const std::vector<std::byte> zero(bytes_of(ElementType::kI64));
    return writer.append(zero);
  }
  const auto numbers = [&](std::uint64_t first, std::span<float> out) {
    return tensor.numbers(read, first, out);
  };
  return append_numbers(model::element_count(tensor.shape), numbers, writer);
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
  TAUT_TRY(auto writer, safetensors::Writer::create(path, specs, notes_of(saved.job())));
  for (const auto& tensor : tensors) {
    TAUT_TRY(append(tensor, read, writer));
  }
  TAUT_TRY(writer.finish());
  fmt::print("{}: {}\n", path, counted(static_cast<std::int64_t>(tensors.size()), "tensor"));
  return ok();
}

}  // namespace taut::cli
