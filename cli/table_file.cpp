#include "cli/table_file.hpp"

#include <algorithm>
#include <cstddef>

#include "proto/config/text.hpp"
#include "worker/model/saved_model.hpp"

namespace taut::cli {

safetensors::Metadata notes_of(const pb::Job& job) {
  // "format" tells PyTorch's readers that these are its tensors.
  return {{"format", "pt"}, {model::kJobNote, to_text(job)}};
}

Result<void> append_numbers(std::uint64_t count, const ReadNumbers& read,
                            safetensors::Writer& writer) {
  constexpr std::uint64_t kBlockFloats = 1 << 20;
  std::vector<float> block(static_cast<std::size_t>(std::min(kBlockFloats, count)));
  for (std::uint64_t first = 0; first < count; first += kBlockFloats) {
    const auto part =
        std::span(block).first(static_cast<std::size_t>(std::min(kBlockFloats, count - first)));
    TAUT_TRY(read(first, part));
    TAUT_TRY(writer.append(part));
  }
  return ok();
}

Result<void> write_tables(const std::filesystem::path& path, const std::vector<TableSpec>& tables,
                          const model::ReadTable& read, const pb::Job& job) {
  std::vector<safetensors::TensorSpec> specs;
  specs.reserve(tables.size());
  for (const TableSpec& table : tables) {
    specs.push_back({table.name, {table.shape.begin(), table.shape.end()}});
  }
  TAUT_TRY(auto writer, safetensors::Writer::create(path, specs, notes_of(job)));
  for (std::size_t table = 0; table < tables.size(); ++table) {
    const auto numbers = [&](std::uint64_t first, std::span<float> out) {
      return read(table, first, out);
    };
    TAUT_TRY(append_numbers(tables[table].count(), numbers, writer));
  }
  return writer.finish();
}

}  // namespace taut::cli
