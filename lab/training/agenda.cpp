#include "lab/training/agenda.hpp"

#include <algorithm>

namespace taut::lab {

void Agenda::at(TimePoint time, Action action) {
  entries_.push_back({time, order_++, std::move(action)});
  std::push_heap(entries_.begin(), entries_.end());
}

Agenda::Action Agenda::take() {
  std::pop_heap(entries_.begin(), entries_.end());
  Action action = std::move(entries_.back().action);
  entries_.pop_back();
  ++taken_;
  return action;
}

}  // namespace taut::lab
