#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/bounded_queue.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/data/dataset.hpp"
#include "worker/data/sampler.hpp"

namespace taut::data {

/// What becomes of a pixel: (pixel - mean) * scale.
struct Transform {
  float scale = 1;
  std::vector<float> mean;  // none, one for all channels, or one for each
};

/// Decoded records of one clock.
struct Batch {
  Clock clock;
  std::vector<float> images;  // (N, C, H, W)
  std::vector<float> labels;  // (N)
};

/// Decodes batches ahead of the compute, clock by clock, on a thread of its own. What comes out
/// depends on the data set, the sampler, the transform and the clock alone, never on timing.
class DataLoader {
 public:
  struct Options {
    Clock start;            // of the first batch
    std::size_t depth = 4;  // batches decoded ahead
    Transform transform;
  };

  /// Errors    invalid: a depth of 0, means that fit neither all channels nor each, a scale or a
  ///           mean that is no number
  [[nodiscard]] static Result<std::unique_ptr<DataLoader>> start(
      std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
      Options options);

  /// Ends the thread, whatever it is waiting for.
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// The batch of the next clock. Errors: timeout, none was ready within `wait`; closed, the thread
  /// could not go on, and why. Thread: one consumer.
  [[nodiscard]] Result<Batch> next(Duration wait);

  /// Gives a batch's memory back for the ones to come. Thread: the consumer's.
  void recycle(Batch&& batch);

 private:
  DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
             Options options);
  void run();
  void decode(Batch& batch) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const Sampler> sampler_;
  const Options options_;
  const std::vector<float> means_;  // for each channel
  BoundedQueue<Batch> ready_;
  BoundedQueue<Batch> spare_;
  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
  std::thread thread_;   // last: it uses all of the others
};

}  // namespace taut::data
