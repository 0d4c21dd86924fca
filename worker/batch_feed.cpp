#include "worker/batch_feed.hpp"

#include <utility>

namespace taut::worker {

BatchFeed::BatchFeed(Backend& backend) : backend_(backend), copies_(backend.make_copy_stream()) {
  for (Slot& slot : slots_) {
    slot.arrived = backend.make_event();
    slot.taken = backend.make_event();
  }
}

std::vector<DeviceSpan<const float>> BatchFeed::bring(Stream& compute, data::Batch batch,
                                                      data::DataLoader& loader) {
  newest_ = 1 - newest_;
  Slot& slot = slots_[newest_];
  if (slot.loader != nullptr) {
    slot.arrived->finish();
    slot.loader->recycle(std::exchange(slot.batch, {}));
  }
  slot.batch = std::move(batch);
  slot.loader = &loader;
  slot.taken->wait(*copies_);
  slot.blobs.resize(slot.batch.blobs.size());
  std::vector<DeviceSpan<const float>> arriving;
  for (std::size_t i = 0; i < slot.blobs.size(); ++i) {
    const std::span<const float> from = slot.batch.blobs[i];
    DeviceBuffer& into = slot.blobs[i];
    if (into.size() != Bytes(from.size_bytes())) {
      into = backend_.allocate_floats(from.size(), "a batch on its way to the net");
    }
    backend_.copy_to_device(*copies_, from, into.as<float>());
    arriving.emplace_back(into.as<float>());
  }
  slot.arrived->record(*copies_);
  slot.arrived->wait(compute);
  return arriving;
}

void BatchFeed::mark_taken(Stream& compute) {
  slots_[newest_].taken->record(compute);
}

}  // namespace taut::worker
