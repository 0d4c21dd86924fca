#pragma once

#include <array>
#include <memory>
#include <vector>

#include "worker/data/data_loader.hpp"
#include "worker/engine/backend.hpp"

namespace taut::worker {

/// Brings batches to a device with its own memory, on a stream for copies and through two buffers:
/// a batch arrives while the device still computes with the one before.
/// Thread    the compute thread
class BatchFeed {
 public:
  /// backend  outlives this
  explicit BatchFeed(Backend& backend);

  /// Queues a batch's copies, and has `compute` wait for them; returns where its blobs are. The
  /// loader gets the batch back when it has been copied.
  /// loader    outlives this
  /// Errors    DeviceError
  [[nodiscard]] std::vector<DeviceSpan<const float>> bring(Stream& compute, data::Batch batch,
                                                           data::DataLoader& loader);
  /// Notes that `compute` has taken what the last bring() returned, once it gets here.
  void mark_taken(Stream& compute);

 private:
  struct Slot {
    std::vector<DeviceBuffer> blobs;
    data::Batch batch;  // whose copies may be pending
    data::DataLoader* loader = nullptr;
    std::unique_ptr<Event> arrived;
    std::unique_ptr<Event> taken;
  };

  Backend& backend_;
  std::array<Slot, 2> slots_;
  std::size_t newest_ = 0;
  std::unique_ptr<Stream> copies_;  // last: what it copies from and to outlives it
};

}  // namespace taut::worker
