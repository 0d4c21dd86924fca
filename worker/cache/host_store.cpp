#include "worker/cache/host_store.hpp"

#include <utility>

#include "common/check.hpp"
#include "common/math/update_kernels.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut {

HostStore::HostStore(Client& client, Backend& backend, const std::vector<TableSpec>& tables,
                     const ServedOptions& options)
    : HostStore(client, tables, options, std::make_unique<TwoBuffers>(backend, tables)) {}

HostStore::HostStore(Client& client, const std::vector<TableSpec>& tables,
                     const ServedOptions& options, std::unique_ptr<ValueMemory> memory)
    : client_(client), options_(options), memory_(std::move(memory)) {
  for (const TableSpec& spec : tables) {
    Table& table = tables_.emplace_back();
    table.id = spec.id;
    table.is_trained = spec.kind == TableKind::kTrained;
  }
}

std::span<float> HostStore::fresh(TableId table) {
  return memory_->fresh(table);
}

void HostStore::bring(TableId table) {
  memory_->bring(table);
}

DeviceSpan<const float> HostStore::front(TableId table) const {
  return memory_->front(table);
}

DeviceSpan<float> HostStore::gradient(TableId id) {
  Table& table = tables_[id.value()];
  if (!table.gradient) table.gradient = client_.gradient_buffer(id);
  const auto floats = table.gradient.floats();
  return {floats.data(), floats.size()};
}

void HostStore::publish(TableId id, Clock clock) {
  if (sends_at_once()) send(tables_[id.value()], clock, 0);
}

void HostStore::finish_clock(Clock clock) {
  if (sends_at_once()) return;
  const float norm = options_.norm == math::UpdateNorm::kGradient ? gradient_norm() : 0;
  for (Table& table : tables_) {
    if (table.gradient) send(table, clock, norm);
  }
}

/// The norm over all tables.
float HostStore::gradient_norm() const {
  double squares = 0;
  for (const Table& table : tables_) {
    if (!table.gradient || !table.is_trained) continue;
    squares += math::sum_of_squares(table.gradient.floats());
  }
  return math::gradient_norm(squares);
}

/// norm  of the whole gradient, if the options have it
void HostStore::send(Table& table, Clock clock, float norm) {
  TAUT_CHECK(table.gradient, "a table is published after its gradient was computed");
  if (options_.norm == math::UpdateNorm::kRelative && table.is_trained) {
    norm = math::relative_norm(table.gradient.floats(), host_view(memory_->front(table.id)));
  }
  client_.push_and_read(table.id, clock, table.gradient, memory_->fresh(table.id), norm);
  // The client keeps the buffer until the shards have it; the next gradient gets another one.
  table.gradient = Buffer();
}

}  // namespace taut
