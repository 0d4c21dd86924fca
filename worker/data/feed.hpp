#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/data/record_source.hpp"

namespace taut::data {

/// Makes the blobs of one data layer, batch by batch.
/// Thread    one at a time
class Feed {
 public:
  Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  virtual ~Feed() = default;

  /// Elements of each top's blob.
  [[nodiscard]] virtual const std::vector<std::size_t>& elements() const = 0;

  /// Writes the tops' blobs of a clock: a pure function of the clock.
  /// tops    for each top its elements
  /// Errors  as RecordSource::read
  [[nodiscard]] virtual Result<void> fill(Clock clock, std::span<const std::span<float>> tops) = 0;
};

/// Feeds batches of a source's records, one record after the other.
/// tops      how many of the fields are wanted
/// Errors    invalid: more tops than fields; what the source's sampler refuses
[[nodiscard]] Result<std::unique_ptr<Feed>> record_feed(std::shared_ptr<const RecordSource> source,
                                                        const FeedOptions& options,
                                                        std::size_t tops);

}  // namespace taut::data
