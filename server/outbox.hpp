#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/ssp/slice_layout.hpp"
#include "proto/data_message.hpp"
#include "server/slice_state.hpp"

namespace taut::server {

struct Outgoing {
  PeerId to;
  DataMessage message;
};

/// Gathers answers, so that each peer gets one message.
class Outbox {
 public:
  explicit Outbox(JobId job) : job_(job) {}

  void add(PeerId to, DataItem item) {
    auto found = std::ranges::find_if(batches_, [to](const auto& batch) {
      return batch.first == to && batch.second.items.size() < DataItems::kMaxItems;
    });
    if (found == batches_.end()) found = batches_.insert(batches_.end(), {to, {}});
    found->second.items.push_back(std::move(item));
  }
  void add(const Answer& answer, const Slice& place, DataItem::Kind kind, Clock stable = Clock()) {
    DataItem item;
    item.kind = kind;
    item.table = place.table;
    item.slice = place.slice;
    item.offset = place.offset;
    item.count = place.count;
    item.clock = answer.reader.clock;
    item.version = answer.version;
    item.done = answer.done;
    item.stable = stable;
    if (answer.follows && answer.values.empty()) item.count = 0;
    item.payload = answer.values;
    add(answer.reader.peer, std::move(item));
  }
  [[nodiscard]] std::vector<Outgoing> take() {
    std::vector<Outgoing> messages;
    for (auto& [to, batch] : batches_) {
      messages.push_back({to, DataMessage{job_, WorkerId(), Incarnation(), std::move(batch)}});
    }
    return messages;
  }

 private:
  JobId job_;
  std::vector<std::pair<PeerId, DataItems>> batches_;
};

}  // namespace taut::server
