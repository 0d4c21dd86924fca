#include "worker/follower/model_attempt.hpp"

#include <cstring>

namespace taut {

Frame slice_of(const Model& model, const Slice& place) {
  return Frame(model.values[place.table.value()])
      .part(place.offset * sizeof(float), place.count * sizeof(float));
}

ModelAttempt::ModelAttempt(Clock target, std::shared_ptr<const std::vector<TableSpec>> tables,
                           const SliceLayout& layout, BufferPool& pool)
    : model_{target, std::move(tables), {}},
      slices_(layout.slice_count()),
      missing_(layout.slice_count()) {
  for (const TableSpec& table : *model_.tables) {
    model_.values.push_back(pool.acquire(table.count() * sizeof(float)));
  }
}

bool ModelAttempt::take(const taut::Slice& place, std::size_t index, const Frame& values) {
  Slice& slice = slices_[index];
  if (slice.is_here || values.size() != place.count * sizeof(float)) return false;
  std::memcpy(model_.values[place.table.value()].data() + place.offset * sizeof(float),
              values.bytes().data(), values.size());
  slice.is_here = true;
  --missing_;
  return true;
}

Frame ModelAttempt::values(const taut::Slice& place) const {
  return slice_of(model_, place);
}

}  // namespace taut
