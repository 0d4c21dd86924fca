#include "server/tables/slice_memory.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "common/check.hpp"

namespace taut::server {

SliceMemory::SliceMemory(std::size_t count, std::size_t state_count, BufferPool& values,
                         BufferPool& states)
    : value_pool_(values), state_pool_(states), values_(values.acquire(count * sizeof(float))) {
  for (std::size_t i = 0; i < state_count; ++i) {
    states_.push_back(state_pool_.acquire(count * sizeof(float)));
    std::ranges::fill(states_.back().floats(), 0.0F);
  }
}

void SliceMemory::start_from(const Buffer& values, const std::vector<Buffer>& states) {
  TAUT_CHECK(values.size() == values_.size(), "an image of another slice");
  TAUT_CHECK(states.size() == states_.size(), "an image of another rule");
  std::ranges::copy(values.floats(), values_.floats().begin());
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::ranges::copy(states[i].floats(), states_[i].floats().begin());
  }
}

Buffer SliceMemory::output() {
  if (values_.unshared()) return values_;
  return reserved_values_ ? std::move(reserved_values_) : value_pool_.acquire(values_.size());
}

std::span<float> SliceMemory::state(std::size_t index) {
  Buffer& state = states_[index];
  if (state.unshared()) return state.floats();
  // An update in between that did not change this state may have dropped the reserve.
  const bool is_reserved = index < reserved_states_.size() && reserved_states_[index];
  Buffer own = is_reserved ? std::move(reserved_states_[index]) : state_pool_.acquire(state.size());
  std::ranges::copy(state.floats(), own.floats().begin());
  state = std::move(own);
  return state.floats();
}

void SliceMemory::set_values(Buffer values) {
  values_ = std::move(values);
  drop_reserve();
}

void SliceMemory::reserve() {
  try {
    reserved_values_ = value_pool_.acquire(values_.size());
    reserved_states_.clear();
    for (const Buffer& state : states_) {
      reserved_states_.push_back(state_pool_.acquire(state.size()));
    }
  } catch (const std::bad_alloc&) {
    drop_reserve();
    throw;
  }
}

void SliceMemory::drop_reserve() {
  reserved_values_ = {};
  reserved_states_.clear();
}

}  // namespace taut::server
