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

bool ModelAttempt::take(const taut::Slice& place, std::size_t index, std::uint64_t offset,
                        const Frame& values) {
  Slice& slice = slices_[index];
  const std::uint64_t count = values.size() / sizeof(float);
  if (values.size() % sizeof(float) != 0 || offset < place.offset || count > place.count) {
    return false;
  }
  const std::uint64_t begin = offset - place.offset;
  // Some may have arrived before, if the slice was requested again.
  const bool is_next = begin <= slice.filled && begin + count > slice.filled;
  if (!is_next || begin + count > place.count) return false;
  std::memcpy(model_.values[place.table.value()].data() + offset * sizeof(float),
              values.bytes().data(), values.size());
  slice.filled = begin + count;
  slice.is_here = slice.filled == place.count;
  if (slice.is_here) --missing_;
  return true;
}

}  // namespace taut
