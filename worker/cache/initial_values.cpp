#include "worker/cache/initial_values.hpp"

#include "common/math/filler.hpp"

namespace taut {

Result<void> read_initial_values(const TableSpec& table, std::uint64_t seed,
                                 std::span<float> into) {
  if (!table.origin) {
    math::fill(table.filler, seed, table.name, 0, into);
    return ok();
  }
  TAUT_TRY(const TensorFile file, TensorFile::open(table.origin->file));
  return file.read_floats(table.origin->type, table.origin->offset, into);
}

Result<void> read_initial_rows(const TableSpec& table, std::uint64_t seed,
                               std::span<const std::uint64_t> rows, std::span<float> into) {
  const std::uint64_t width = table.width();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    math::fill(table.filler, seed, table.name, rows[i] * width, into.subspan(i * width, width));
  }
  return ok();
}

}  // namespace taut
