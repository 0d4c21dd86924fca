#include "worker/follower/model_relay.hpp"

#include <algorithm>

namespace taut {

void ModelRelay::park(PeerId peer, const DataItem& item) {
  auto& slice = waiting_[{item.table, item.slice}];
  const bool is_new = !slice.contains(peer);
  if (is_new && count_ >= kMax) return;
  if (is_new) ++count_;
  slice[peer] = Waiting{item.clock, item.clock, 0};
  refresh(peer);
}

std::vector<ModelRelay::Part> ModelRelay::take(const Slice& place, Clock version,
                                               std::uint64_t filled) {
  std::vector<Part> served;
  const auto found = waiting_.find({place.table, place.slice});
  if (found == waiting_.end()) return served;
  for (auto one = found->second.begin(); one != found->second.end();) {
    Waiting& waiting = one->second;
    if (waiting.from > version) {
      ++one;
      continue;
    }
    if (waiting.version != version) {
      waiting.version = version;
      waiting.sent = 0;
    }
    if (filled > waiting.sent) {
      served.push_back({one->first, std::exchange(waiting.sent, filled), filled});
    }
    const bool has_all = waiting.sent == place.count;
    one = has_all ? found->second.erase(one) : std::next(one);
    if (has_all) --count_;
  }
  if (found->second.empty()) waiting_.erase(found);
  return served;
}

void ModelRelay::restart() {
  for (auto& [slice, requests] : waiting_) {
    for (auto& [peer, waiting] : requests) waiting.sent = 0;
  }
}

std::optional<Clock> ModelRelay::wanted() const {
  std::optional<Clock> wanted;
  for (const auto& [slice, requests] : waiting_) {
    for (const auto& [peer, waiting] : requests) {
      wanted = std::min(wanted.value_or(waiting.from), waiting.from);
    }
  }
  return wanted;
}

void ModelRelay::age() {
  ++age_;
  std::erase_if(ages_, [this](const auto& entry) { return entry.second + 1 < age_; });
  for (auto slice = waiting_.begin(); slice != waiting_.end();) {
    count_ -= std::erase_if(slice->second,
                            [this](const auto& entry) { return !ages_.contains(entry.first); });
    slice = slice->second.empty() ? waiting_.erase(slice) : std::next(slice);
  }
}

}  // namespace taut
