// How members that share a batch by their speeds divide it.
#include <fmt/format.h>

#include "lab/contract/checker.hpp"

namespace taut::sim {

std::optional<Broken> Checker::check_weight(const Event& request) const {
  const bool is_push =
      request.item == pb::DataItem::PUSH || request.item == pb::DataItem::PUSH_READ;
  if (!job_.balance || !is_push) return std::nullopt;
  const auto clock = parts_.find(request.clock.value());
  if (clock == parts_.end() || !clock->second.contains(request.worker.value())) {
    return Broken{"shares",
                  fmt::format("worker {} sends an update of clock {} that it has not made",
                              request.worker.value(), request.clock.value())};
  }
  const std::uint32_t records = clock->second.at(request.worker.value()).records;
  if (request.weight == static_cast<float>(records) / kToyBatch) return std::nullopt;
  return Broken{"shares", fmt::format("worker {}'s update of clock {} is of {} records, and counts "
                                      "as {} of equal shares of {}",
                                      request.worker.value(), request.clock.value(), records,
                                      request.weight, kToyBatch)};
}

std::optional<Broken> Checker::check_parts() const {
  const std::uint32_t batch = kToyBatch * job_.workers;
  for (const auto& [clock, parts] : parts_) {
    std::map<std::uint32_t, Part> by_place;
    std::uint32_t records = 0;
    for (const auto& [worker, part] : parts) {
      // Anything more that a lost worker has computed is not counted.
      const auto member = newest_.members.find(worker);
      const bool is_known = member != newest_.members.end() &&
                            !(member->second.fenced && member->second.leave == kNever);
      if (!is_known || clock >= member->second.leave) continue;
      records += part.records;
      if (by_place.emplace(part.first, part).second) continue;
      return Broken{"shares", fmt::format("two parts of clock {}'s batch begin at record {}", clock,
                                          part.first)};
    }
    std::uint32_t free = 0;
    for (const auto& [first, part] : by_place) {
      if (first < free || first + part.records > batch) {
        return Broken{"shares", fmt::format("a part of clock {}'s batch is of the records {} to "
                                            "{}, and those below {} are another's",
                                            clock, first, first + part.records, free)};
      }
      free = first + part.records;
    }
    if (by_place.size() == job_.workers && records != batch) {
      return Broken{"shares", fmt::format("all workers together compute {} of {} records of clock "
                                          "{}'s batch",
                                          records, batch, clock)};
    }
  }
  return std::nullopt;
}

}  // namespace taut::sim
