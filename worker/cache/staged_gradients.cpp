#include "worker/cache/staged_gradients.hpp"

#include <exception>

#include "common/log.hpp"

namespace taut {

/// The copies write into memory that is freed here. A failed device was reported elsewhere.
StagedGradients::~StagedGradients() {
  try {
    to_host_->finish();
  } catch (const std::exception& fault) {
    log::debug("the copies of gradients were cut short: {}", fault.what());
  }
}

void StagedGradients::add(std::size_t count) {
  tables_.push_back({backend_.allocate_host(Bytes(count * sizeof(float))), backend_.make_event(),
                     backend_.make_event()});
}

void StagedGradients::copy(std::size_t index, DeviceSpan<const float> gradient, Stream& compute) {
  Table& table = tables_[index];
  table.computed->record(compute);
  table.computed->wait(*to_host_);
  backend_.copy_to_host(*to_host_, gradient, table.staged.as<float>());
  if (backend_.in_dry_run()) return;
  table.copied->record(*to_host_);
  under_way_.push_back(index);
}

std::optional<std::size_t> StagedGradients::await_next() {
  if (under_way_.empty()) return std::nullopt;
  const std::size_t index = under_way_.front();
  under_way_.pop_front();
  tables_[index].copied->finish();
  tables_[index].is_copied = true;
  return index;
}

std::span<const float> StagedGradients::gradient(std::size_t index) const {
  const Table& table = tables_[index];
  return table.is_copied ? table.staged.as<float>() : std::span<const float>();
}

void StagedGradients::forget() {
  for (Table& table : tables_) table.is_copied = false;
}

}  // namespace taut
