#include "worker/training/batch_feed.hpp"

#include <utility>

namespace taut::worker {

BatchFeed::BatchFeed(Backend& backend) : backend_(backend), copies_(backend.make_copy_stream()) {
  for (Copying& one : copying_) one.copied = backend.make_event();
  for (Slot& slot : slots_) slot.taken = backend.make_event();
}

/// Returns the batches with completed copies to their loaders.
void BatchFeed::give_back() {
  for (; pending_ > 0 && copying(0).copied->query(); --pending_) {
    Copying& done = copying(0);
    done.loader->recycle(std::exchange(done.batch, {}));
    oldest_ = (oldest_ + 1) % kMaxCopying;
  }
}

std::vector<DeviceSpan<const float>> BatchFeed::bring(Stream& compute, data::Batch batch,
                                                      data::DataLoader& loader) {
  give_back();
  if (pending_ == kMaxCopying) {
    copying(0).copied->finish();
    give_back();
  }
  // In the ring before anything is queued: if a call fails, it stays there until copies_ has ended.
  Copying& own = copying(pending_++);
  own.batch = std::move(batch);
  own.loader = &loader;
  newest_ = 1 - newest_;
  Slot& slot = slots_[newest_];
  slot.taken->wait(*copies_);
  slot.blobs.resize(own.batch.blobs.size());
  std::vector<DeviceSpan<const float>> arriving;
  for (std::size_t i = 0; i < slot.blobs.size(); ++i) {
    const std::span<const float> from = own.batch.blobs[i];
    DeviceBuffer& into = slot.blobs[i];
    if (into.size() != Bytes(from.size_bytes())) {
      into = backend_.allocate_floats(from.size(), "a batch on its way to the net");
    }
    backend_.copy_to_device(*copies_, from, into.as<float>());
    arriving.emplace_back(into.as<float>());
  }
  own.copied->record(*copies_);
  own.copied->wait(compute);
  return arriving;
}

void BatchFeed::drain() {
  while (pending_ > 0) {
    copying(0).copied->finish();
    give_back();
  }
}

void BatchFeed::mark_taken(Stream& compute) {
  slots_[newest_].taken->record(compute);
}

}  // namespace taut::worker
