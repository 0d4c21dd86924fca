#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "worker/data/data_loader.hpp"
#include "worker/engine/backend.hpp"

namespace taut::worker {

/// Copies batches to a device with its own memory, on a stream for copies and through two buffers:
/// a batch is copied while the device still computes with the previous one. The host continues; it
/// waits only when it is so far ahead of the device that kMaxCopying batches are not copied yet.
/// Thread    the compute thread
class BatchFeed {
 public:
  static constexpr std::size_t kMaxCopying = 3;

  /// backend  outlives this
  explicit BatchFeed(Backend& backend);

  /// Queues a batch's copies, and makes `compute` wait for them; returns its blobs on the device.
  /// The loader gets the batch back in a later call, when it has been copied.
  /// loader    outlives this
  /// Errors    DeviceError
  [[nodiscard]] std::vector<DeviceSpan<const float>> bring(Stream& compute, data::Batch batch,
                                                           data::DataLoader& loader);
  /// Waits for all copies, and returns the batches to their loaders.
  void drain();
  /// Marks the point in `compute` from which it no longer reads the blobs of the last bring().
  void mark_taken(Stream& compute);

 private:
  /// A batch on the host whose copies may be pending.
  struct Copying {
    data::Batch batch;
    data::DataLoader* loader = nullptr;
    std::unique_ptr<Event> copied;
  };
  /// The device memory of a batch.
  struct Slot {
    std::vector<DeviceBuffer> blobs;
    std::unique_ptr<Event> taken;
  };
  [[nodiscard]] Copying& copying(std::size_t number) {
    return copying_[(oldest_ + number) % kMaxCopying];
  }
  void give_back();

  Backend& backend_;
  std::array<Copying, kMaxCopying> copying_;  // a ring
  std::size_t oldest_ = 0;
  std::size_t pending_ = 0;  // of the ring
  std::array<Slot, 2> slots_;
  std::size_t newest_ = 0;
  std::unique_ptr<Stream> copies_;  // last: its sources and targets outlive it
};

}  // namespace taut::worker
