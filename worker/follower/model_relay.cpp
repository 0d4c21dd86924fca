#include "worker/follower/model_relay.hpp"

#include <algorithm>

namespace taut {

void ModelRelay::park(PeerId peer, const DataItem& item) {
  auto& slice = waiting_[{item.table, item.slice}];
  const bool is_new = !slice.contains(peer);
  if (is_new && count_ >= kMax) return;
  if (is_new) ++count_;
  slice[peer] = item.clock;
  refresh(peer);
}

std::vector<ModelRelay::Waiting> ModelRelay::take(TableId table, SliceId slice, Clock version) {
  std::vector<Waiting> served;
  const auto found = waiting_.find({table, slice});
  if (found == waiting_.end()) return served;
  for (auto one = found->second.begin(); one != found->second.end();) {
    if (one->second > version) {
      ++one;
      continue;
    }
    served.push_back({one->first, one->second});
    one = found->second.erase(one);
    --count_;
  }
  if (found->second.empty()) waiting_.erase(found);
  return served;
}

std::optional<Clock> ModelRelay::wanted() const {
  std::optional<Clock> wanted;
  for (const auto& [slice, requests] : waiting_) {
    for (const auto& [peer, from] : requests) {
      wanted = std::min(wanted.value_or(from), from);
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
