#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/math/filler.hpp"
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

  /// The number of elements in each top's blob.
  [[nodiscard]] virtual const std::vector<std::size_t>& elements() const = 0;

  /// Whether a top is the same at every clock.
  [[nodiscard]] virtual bool is_constant(std::size_t /*top*/) const { return false; }

  /// Writes the tops' blobs of a clock: a pure function of the clock.
  /// tops    each top's elements; empty for a constant top whose memory it has already filled
  /// Errors  as RecordSource::read
  [[nodiscard]] virtual Result<void> fill(Clock clock, std::span<const std::span<float>> tops) = 0;
};

/// Feeds batches of a source's records, one record after the other. A record that cannot be read
/// is an error, or is reported once by its number and skipped, as the options specify.
/// tops      how many of the fields are required
/// Errors    invalid: more tops than fields; what the source's sampler refuses
[[nodiscard]] Result<std::unique_ptr<Feed>> record_feed(std::shared_ptr<const RecordSource> source,
                                                        const FeedOptions& options,
                                                        std::size_t tops);

/// How a filler fills one top.
struct DummyTop {
  math::Filler filler;
  std::size_t elements = 1;
  std::int64_t classes = 0;  // above 0: whole numbers in [0, classes) instead
};

/// Feeds blobs from a filler: a constant, or drawn again at every clock.
/// layer     its name: each layer draws different numbers
[[nodiscard]] std::unique_ptr<Feed> dummy_feed(std::vector<DummyTop> tops,
                                               const FeedOptions& options,
                                               const std::string& layer);

}  // namespace taut::data
