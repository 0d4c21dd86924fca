#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/bounded_queue.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/data/feed.hpp"
#include "worker/data/row_numbers.hpp"

namespace taut::data {

/// A net's input at one clock.
struct Batch {
  Clock clock;
  std::vector<std::pmr::vector<float>> blobs;  // the tops of every feed, in order
  /// For each blob whose numbers name rows: the distinct row numbers, ascending; the blob then has
  /// each number's index among them. Empty for any other blob; no entries if no blob names rows.
  std::vector<std::vector<std::uint64_t>> rows;

  [[nodiscard]] std::vector<std::span<const float>> spans() const {
    return {blobs.begin(), blobs.end()};
  }
};

enum class Loading : std::uint8_t {
  kAhead,      // by a thread
  kOnRequest,  // by the thread that calls next()
};

/// Makes batches clock by clock, usually ahead of the compute, on its own thread. A batch depends
/// on the feeds and the clock alone, never on timing.
class DataLoader {
 public:
  struct Options {
    Clock start;            // of the first batch
    std::size_t depth = 4;  // batches made ahead
    Loading loading = Loading::kAhead;
    std::vector<RowNumbers> row_numbers = {};  // the blobs that have some
    /// Where batches are stored. It outlives them all; the loader's thread allocates from it, and
    /// the last user of a batch deallocates.
    std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  };

  /// feeds     one per data layer, in the graph's order
  /// Errors    invalid: a depth of 0
  [[nodiscard]] static Result<std::unique_ptr<DataLoader>> start(
      std::vector<std::unique_ptr<Feed>> feeds, Options options);

  /// Ends the thread, even if it is waiting.
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Returns the next clock's batch. Errors: timeout, none was ready within `wait`; closed, the
  /// thread could not continue (names the reason). Thread: one consumer.
  [[nodiscard]] Result<Batch> next(Duration wait);

  /// Returns a batch's memory for reuse. Thread: the consumer's.
  void recycle(Batch&& batch);

 private:
  DataLoader(std::vector<std::unique_ptr<Feed>> feeds, Options options);
  void run();
  [[nodiscard]] Result<Batch> make(Clock clock);
  [[nodiscard]] Result<void> fill(Batch& batch);
  [[nodiscard]] bool is_rewritten(std::size_t blob) const;
  void fail(const std::string& why);

  const std::vector<std::unique_ptr<Feed>> feeds_;
  const Options options_;
  Clock next_;  // on request
  BoundedQueue<Batch> ready_;
  BoundedQueue<Batch> spare_;
  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
  std::thread thread_;   // last: it uses all of the others
};

}  // namespace taut::data
