#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/math/philox.hpp"
#include "common/record_shape.hpp"
#include "common/result.hpp"
#include "worker/data/sampler.hpp"

namespace taut::data {

/// One of a data set's two parts.
enum class Part : std::uint8_t { kTrain, kTest };

/// Random numbers for one place in a batch: a pure function of (seed, member, clock, place).
class RecordDraw {
 public:
  /// key  draw_key() of the job's seed and the member
  RecordDraw(std::uint64_t key, Clock clock, std::uint32_t place)
      : key_(key), clock_(static_cast<std::uint64_t>(clock.value())), place_(place) {}

  /// The n-th word of this place.
  [[nodiscard]] std::uint32_t word(std::uint32_t n) const {
    const std::uint64_t counter = std::uint64_t{place_} << 32U | n / 4;
    return math::Philox::at(key_, clock_, counter).words[n % 4];
  }

 private:
  std::uint64_t key_;
  std::uint64_t clock_;
  std::uint32_t place_;
};

/// The key of a member's draws.
[[nodiscard]] std::uint64_t draw_key(std::uint64_t seed, std::uint32_t slot);

/// A phase's settings for a data layer's records.
struct FeedOptions {
  Part part = Part::kTrain;
  Share share;                // of the records, in training
  std::uint32_t batch = 0;    // records
  std::uint64_t seed = 0;     // of the job
  bool skip_corrupt = false;  // the next good record replaces one that cannot be read
};

/// The records of a data layer, each decoded when it is read.
/// Thread    any; several at a time
class RecordSource {
 public:
  RecordSource() = default;
  RecordSource(const RecordSource&) = delete;
  RecordSource& operator=(const RecordSource&) = delete;
  virtual ~RecordSource() = default;

  /// The number of records, at least 1.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// The fields of each record; the same for all.
  [[nodiscard]] virtual const RecordShape& fields() const = 0;

  /// Writes a record's first into.size() fields; the others are left out.
  /// into    the elements of each field, in order
  /// draw    for the record's random parts; the same draw gives the same record
  /// REQUIRES: index < size(). Errors: invalid or io, the record cannot be read; names it
  [[nodiscard]] virtual Result<void> read(std::uint64_t index, const RecordDraw& draw,
                                          std::span<const std::span<float>> into) const = 0;

  /// Errors: invalid, a label outside [0, classes) other than `ignored`; names the record and the
  /// label. Does nothing if the source knows labels only when it reads them.
  struct LabelRange {
    std::size_t field = 1;
    std::int64_t classes = 0;
    std::optional<std::int64_t> ignored;
  };
  [[nodiscard]] virtual Result<void> check_labels(const LabelRange& /*range*/) const {
    return ok();
  }

  /// Decides which record is at which place of a batch: in training each pass over the share has
  /// its own order, in testing all records are in order. A source of sequential records overrides
  /// it.
  [[nodiscard]] virtual Result<std::unique_ptr<Sampler>> sampler(const FeedOptions& options) const;
  /// Whether the batch size may change from one clock to the next.
  [[nodiscard]] virtual bool batch_may_change() const { return true; }
  /// Whether each float of the first field holds the bits of a std::uint32_t row number rather than
  /// its value: floats represent every whole number only up to 2^24.
  [[nodiscard]] virtual bool has_row_numbers() const { return false; }
};

/// Checks one record's label against a range.
/// name      of the file, for the message
[[nodiscard]] Result<void> check_label(const std::string& name, std::uint64_t record,
                                       std::int64_t label, const RecordSource::LabelRange& range);
/// As check_label(), for a label that may be a fraction; a fraction is not a class.
[[nodiscard]] Result<void> check_class(const std::string& name, std::uint64_t record, float label,
                                       const RecordSource::LabelRange& range);

}  // namespace taut::data
