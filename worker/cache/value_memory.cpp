#include "worker/cache/value_memory.hpp"

#include <string>
#include <utility>

#include "common/check.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut {

TwoBuffers::TwoBuffers(Backend& backend, const std::vector<TableSpec>& tables) {
  TAUT_CHECK(backend.shares_host_memory(), "a host store's values are in host memory");
  for (const TableSpec& spec : tables) {
    const std::string name = "parameter " + spec.name;
    Table& table = tables_.emplace_back();
    if (spec.rows) continue;
    table.front = backend.allocate_floats(spec.count(), BufferKind::kParameter, name);
    table.back = backend.allocate_floats(spec.count(), BufferKind::kParameter, name);
  }
}

std::span<float> TwoBuffers::fresh(TableId table) {
  return host_view(tables_[table.value()].back.as<float>());
}

void TwoBuffers::bring(TableId id) {
  Table& table = tables_[id.value()];
  std::swap(table.front, table.back);
}

DeviceSpan<const float> TwoBuffers::front(TableId table) const {
  return tables_[table.value()].front.as<float>();
}

}  // namespace taut
