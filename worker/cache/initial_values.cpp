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

}  // namespace taut
