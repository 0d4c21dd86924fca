#include "cli/table_file.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "common/files/safetensors.hpp"
#include "proto/config/text.hpp"
#include "worker/model/saved_model.hpp"

namespace taut::cli {

Result<void> write_tables(const std::filesystem::path& path, const std::vector<TableSpec>& tables,
                          const model::ReadTable& read, const pb::Job& job) {
  constexpr std::size_t kBlockFloats = 1 << 20;
  std::vector<safetensors::TensorSpec> specs;
  specs.reserve(tables.size());
  for (const TableSpec& table : tables) {
    specs.push_back({table.name, {table.shape.begin(), table.shape.end()}});
  }
  // "format" tells PyTorch's readers that these are its tensors.
  const safetensors::Metadata notes{{"format", "pt"}, {model::kJobNote, to_text(job)}};
  TAUT_TRY(auto writer, safetensors::Writer::create(path, specs, notes));
  std::vector<float> block(kBlockFloats);
  for (std::size_t table = 0; table < specs.size(); ++table) {
    const std::uint64_t count = tables[table].count();
    for (std::uint64_t first = 0; first < count; first += kBlockFloats) {
      const auto part = std::span(block).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(kBlockFloats, count - first)));
      TAUT_TRY(read(table, first, part));
      TAUT_TRY(writer.append(part));
    }
  }
  return writer.finish();
}

}  // namespace taut::cli
