#pragma once

#include <cstdint>
#include <memory>

#include "common/result.hpp"
#include "common/types.hpp"

namespace taut::data {

/// Chooses the records of a batch: a pure function of the clock. Thread: any.
class Sampler {
 public:
  virtual ~Sampler() = default;

  /// The number of records in a batch, at least 1.
  [[nodiscard]] virtual std::uint32_t batch() const = 0;
  /// The record at place i of the batch of a clock. REQUIRES: clock >= 0, i < batch().
  [[nodiscard]] virtual std::uint64_t index(Clock clock, std::uint32_t i) const = 0;
};

/// One worker's share of the records: those with number % slots == slot. Each device of the worker
/// has a part of every batch: part `part` of `parts` equal, contiguous ones.
struct Share {
  std::uint32_t slot = 0;
  std::uint32_t slots = 1;
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  /// Above 0: replaces `part` and `parts`: the batches have `total` records in all, and this share
  /// has the places from `first` on; other members have the rest.
  std::uint64_t total = 0;
  std::uint64_t first = 0;

  /// The first place of a part of `batch` records.
  [[nodiscard]] std::uint64_t first_place(std::uint32_t batch) const {
    return total > 0 ? first : std::uint64_t{part} * batch;
  }
  /// Places of the whole batch.
  [[nodiscard]] std::uint64_t places(std::uint32_t batch) const {
    return total > 0 ? total : std::uint64_t{parts} * batch;
  }
};

/// Walks a share pass by pass, each pass in its own order, so that every record is drawn once
/// per pass. A pure function of (records, share, batch, seed): nothing is stored, any clock costs
/// the same as the first one, and a batch may end one pass and start the next.
/// batch     records of the part
/// Errors    invalid: a batch of 0, a slot outside of the slots, a share without records
/// Source    the order is a Feistel network on Philox, walked until it falls within the share:
///           Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, sections 4
///           and 5
[[nodiscard]] Result<std::unique_ptr<Sampler>> shuffled_sampler(std::uint64_t records, Share share,
                                                                std::uint32_t batch,
                                                                std::uint64_t seed);

/// Walks a share in the order of its records, and starts over after the last one: for sources that
/// are not shuffled.
/// batch     records of the part
/// Errors    as shuffled_sampler
[[nodiscard]] Result<std::unique_ptr<Sampler>> ordered_sampler(std::uint64_t records, Share share,
                                                               std::uint32_t batch);

/// Walks all records in their order: for the test phase.
/// Errors    invalid: a batch of 0, no records
[[nodiscard]] Result<std::unique_ptr<Sampler>> sequential_sampler(std::uint64_t records,
                                                                  std::uint32_t batch);

}  // namespace taut::data
