#include "lab/training/costs/cost_store.hpp"

#include <algorithm>

namespace taut::lab {

CostMemory::CostMemory(const std::vector<TableSpec>& specs) {
  for (const TableSpec& spec : specs) {
    Table& table = tables.emplace_back();
    table.id = spec.id;
    table.values.resize(spec.count());
    table.gradient = pool.acquire(spec.count() * sizeof(float));
    std::ranges::fill(table.gradient.floats(), 0.0F);
  }
}

Frame CostMemory::zeros(std::size_t bytes) {
  if (longest.size() < bytes) {
    longest = pool.acquire(bytes);
    std::ranges::fill(longest.bytes(), std::byte{0});
  }
  return Frame(longest).part(0, bytes);
}

DeviceSpan<const float> CostStore::front(TableId table) const {
  const std::vector<float>& values = of(table).values;
  return {values.data(), values.size()};
}

DeviceSpan<float> CostStore::gradient(TableId table) {
  const auto floats = of(table).gradient.floats();
  return {floats.data(), floats.size()};
}

bool CostStore::sends_at_once() const {
  return options_.overlap && options_.norm != math::UpdateNorm::kGradient;
}

void CostStore::publish(TableId table, Clock clock) {
  if (sends_at_once()) {
    send(table, clock);
  } else {
    unsent_.push_back(table);
  }
}

void CostStore::finish_clock(Clock clock) {
  std::ranges::sort(unsent_);
  for (const TableId table : unsent_) send(table, clock);
  unsent_.clear();
}

void CostStore::send(TableId table, Clock clock) {
  client_.push_and_read(table, clock, of(table).gradient, of(table).values);
}

}  // namespace taut::lab
