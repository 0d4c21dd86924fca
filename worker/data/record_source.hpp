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

/// Which of a data set's two parts.
enum class Part : std::uint8_t { kTrain, kTest };

/// Random numbers for one place of one batch: a pure function of (seed, member, clock, place).
class RecordDraw {
 public:
  /// key  of the job's seed and the member, as draw_key makes it
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

  /// Records; at least one.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// What each record holds; the same for all.
  [[nodiscard]] virtual const RecordShape& fields() const = 0;

  /// Writes a record's first fields, as many as there are spans; the others are left out.
  /// into    for each field its elements, in order
  /// draw    for the record's random parts; the same draw gives the same record
  /// REQUIRES: index < size(). Errors: invalid or io, the record cannot be read; names it
  [[nodiscard]] virtual Result<void> read(std::uint64_t index, const RecordDraw& draw,
                                          std::span<const std::span<float>> into) const = 0;

  /// Errors: invalid, a label outside [0, classes) other than `ignored`; names the record and the
  /// label. Nothing if a source knows labels only when it reads them.
  struct LabelRange {
    std::size_t field = 1;
    std::int64_t classes = 0;
    std::optional<std::int64_t> ignored;
  };
  [[nodiscard]] virtual Result<void> check_labels(const LabelRange& /*range*/) const {
    return ok();
  }

  /// Which record is where in a batch: in training each pass over the share in its own order, in
  /// testing all records in their order. A source whose records follow each other has its own.
  [[nodiscard]] virtual Result<std::unique_ptr<Sampler>> sampler(const FeedOptions& options) const;
  /// Whether batches may have another size from some clock on.
  [[nodiscard]] virtual bool batch_may_change() const { return true; }
  /// Whether each float of the first field is the bits of a std::uint32_t, the number of a row, in
  /// place of the number: floats have all whole numbers only up to 2^24.
  [[nodiscard]] virtual bool has_row_numbers() const { return false; }
};

/// Checks one record's label against a range.
/// name      of the file, for the message
[[nodiscard]] Result<void> check_label(const std::string& name, std::uint64_t record,
                                       std::int64_t label, const RecordSource::LabelRange& range);
/// As check_label(), for a label that may be a fraction, which no class has.
[[nodiscard]] Result<void> check_class(const std::string& name, std::uint64_t record, float label,
                                       const RecordSource::LabelRange& range);

}  // namespace taut::data
