#include <algorithm>

#include "worker/engine/plan/pack.hpp"

namespace taut::plan {
namespace {

/// Steps next to a carry's end during which its copy runs.
std::size_t fetch_steps(const Carry& carry) {
  return carry.to - carry.hold_to;
}
std::size_t write_back_steps(const Carry& carry) {
  return carry.hold_from - carry.from - 1;
}

/// Sets the copy of a value into the stay, before its first use.
void set_fetch(const Problem& problem, const Choice& choice, Stay& stay) {
  const auto& uses = problem.uses[stay.residency.buffer];
  const std::size_t carry = uses[(stay.first + uses.size() - 1) % uses.size()].carry;
  if (carry == kNone || choice.kept(carry) || !problem.carries[carry].fetches) return;
  Residency& at = stay.residency;
  at.fetched = true;
  const std::size_t head = fetch_steps(problem.carries[carry]);
  if (head > at.begin) {  // it starts in the previous iteration
    at.first_use += problem.steps;
    at.last_use += problem.steps;
    at.written += problem.steps;
    at.end += problem.steps;
  }
  at.begin = at.first_use - head;
}

}  // namespace

Stay make_stay(const Problem& problem, const Choice& choice, std::size_t buffer, std::size_t first,
               std::size_t count) {
  const auto& uses = problem.uses[buffer];
  Stay stay;
  stay.first = first;
  stay.uses = count;
  stay.place_bytes = problem.place_bytes[buffer];
  Residency& at = stay.residency;
  at.buffer = buffer;
  bool writes = false;
  for (std::size_t i = first; i < first + count; ++i) {
    const std::size_t step = uses[i % uses.size()].step + (i / uses.size()) * problem.steps;
    if (i == first) at.first_use = step;
    at.last_use = step;
    if (uses[i % uses.size()].writes) {
      writes = true;
      at.written = step;
    }
  }
  at.begin = at.first_use;
  at.end = at.last_use + 1;
  const std::size_t out = uses[(first + count - 1) % uses.size()].carry;
  if (count == uses.size() && out != kNone && choice.kept(out)) {
    stay.permanent = true;
    at.begin = 0;
    at.end = problem.steps;
    at.holds_across_end = true;
    return stay;
  }
  set_fetch(problem, choice, stay);
  at.written_back = out != kNone && !choice.kept(out) && writes;
  if (at.written_back && at.written == at.last_use) {
    at.end += write_back_steps(problem.carries[out]);
  }
  at.holds_across_end = at.last_use >= problem.steps;
  return stay;
}

std::vector<Stay> stays_of(const Problem& problem, const Choice& choice) {
  std::vector<Stay> stays;
  for (std::size_t buffer = 0; buffer < problem.uses.size(); ++buffer) {
    const auto& uses = problem.uses[buffer];
    const auto ends = [&](std::size_t use) {
      const std::size_t carry = uses[use % uses.size()].carry;
      return carry == kNone || !choice.kept(carry);
    };
    std::size_t start = 0;  // one past a use that ends a stay
    while (start < uses.size() && !ends(start + uses.size() - 1)) ++start;
    if (start == uses.size() && !uses.empty()) {
      stays.push_back(make_stay(problem, choice, buffer, 0, uses.size()));
      continue;
    }
    for (std::size_t done = 0, count = 1; done < uses.size(); done += count, count = 1) {
      while (!ends(start + done + count - 1)) ++count;
      const std::size_t first = (start + done) % uses.size();
      stays.push_back(make_stay(problem, choice, buffer, first, count));
    }
  }
  return stays;
}

bool meet(const Residency& a, const Residency& b, std::size_t steps) {
  const auto overlap = [](std::size_t a0, std::size_t a1, std::size_t b0, std::size_t b1) {
    return a0 < b1 && b0 < a1;
  };
  return overlap(a.begin, a.end, b.begin, b.end) ||
         overlap(a.begin + steps, a.end + steps, b.begin, b.end) ||
         overlap(a.begin, a.end, b.begin + steps, b.end + steps);
}

}  // namespace taut::plan
