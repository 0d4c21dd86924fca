#include "worker/data/feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/log.hpp"

namespace taut::data {
namespace {

/// More in a row than damage to individual records can explain.
constexpr std::uint64_t kMaxSkipped = 100;

/// Where a field's records go within the blob of a batch, whose shape is (outer, N, inner).
struct Layout {
  std::size_t outer = 1;
  std::size_t inner = 1;

  explicit Layout(const RecordField& field) {
    for (std::size_t axis = 0; axis < field.shape.size(); ++axis) {
      (axis < field.batch_axis ? outer : inner) *= static_cast<std::size_t>(field.shape[axis]);
    }
  }
  [[nodiscard]] std::size_t elements() const { return outer * inner; }
};

class RecordFeed final : public Feed {
 public:
  RecordFeed(std::shared_ptr<const RecordSource> source, std::unique_ptr<Sampler> sampler,
             const FeedOptions& options, std::size_t tops)
      : source_(std::move(source)),
        sampler_(std::move(sampler)),
        key_(draw_key(options.seed, options.share.slot)),
        first_place_(static_cast<std::uint32_t>(options.share.first_place(sampler_->batch()))),
        skip_corrupt_(options.skip_corrupt),
        spans_(tops),
        apart_(tops) {
    for (std::size_t top = 0; top < tops; ++top) {
      layouts_.emplace_back(source_->fields()[top]);
      const std::size_t record = layouts_.back().elements();
      elements_.push_back(record * sampler_->batch());
      if (layouts_.back().outer > 1) apart_[top].resize(record);
    }
  }

  const std::vector<std::size_t>& elements() const override { return elements_; }

  Result<void> fill(Clock clock, std::span<const std::span<float>> tops) override {
    for (std::uint32_t place = 0; place < sampler_->batch(); ++place) {
      for (std::size_t top = 0; top < spans_.size(); ++top) {
        const std::size_t record = layouts_[top].elements();
        spans_[top] = apart_[top].empty() ? tops[top].subspan(place * record, record)
                                          : std::span<float>(apart_[top]);
      }
      const RecordDraw draw(key_, clock, first_place_ + place);
      TAUT_TRY(read(sampler_->index(clock, place), draw));
      for (std::size_t top = 0; top < spans_.size(); ++top) {
        if (!apart_[top].empty()) scatter(top, place, tops[top]);
      }
    }
    return ok();
  }

 private:
  /// Reads a record or, if corrupt ones are skipped, the next good one: a function of the data
  /// alone, so that every run reads the same records.
  Result<void> read(std::uint64_t index, const RecordDraw& draw) {
    for (std::uint64_t skipped = 0;; ++skipped) {
      auto done = source_->read(index, draw, spans_);
      if (done || !skip_corrupt_) return done;
      if (reported_.insert(index).second) {
        log::warn("record {} is skipped: {}", index, done.error().message);
      }
      if (skipped + 1 == std::min(kMaxSkipped, source_->size())) {
        return invalid(fmt::format("{} records in a row cannot be read, the last: {}", skipped + 1,
                                   done.error().message));
      }
      index = (index + 1) % source_->size();
    }
  }

  /// Copies a record that was read separately to its place at every outer position.
  void scatter(std::size_t top, std::uint32_t place, std::span<float> blob) const {
    const auto [outer, inner] = std::pair(layouts_[top].outer, layouts_[top].inner);
    for (std::size_t i = 0; i < outer; ++i) {
      std::ranges::copy(std::span(apart_[top]).subspan(i * inner, inner),
                        blob.subspan((i * sampler_->batch() + place) * inner, inner).begin());
    }
  }

  const std::shared_ptr<const RecordSource> source_;
  const std::unique_ptr<const Sampler> sampler_;
  const std::uint64_t key_;
  const std::uint32_t first_place_;  // in the whole batch of which this is a part
  const bool skip_corrupt_;
  std::set<std::uint64_t> reported_;
  std::vector<Layout> layouts_;
  std::vector<std::size_t> elements_;
  std::vector<std::span<float>> spans_;
  std::vector<std::vector<float>> apart_;  // a record whose elements are not contiguous in the blob
};

}  // namespace

Result<std::unique_ptr<Feed>> record_feed(std::shared_ptr<const RecordSource> source,
                                          const FeedOptions& options, std::size_t tops) {
  if (tops == 0 || tops > source->fields().size()) {
    return invalid(
        fmt::format("{} tops are fed from records of {} fields", tops, source->fields().size()));
  }
  TAUT_TRY(auto sampler, source->sampler(options));
  return std::unique_ptr<Feed>(
      std::make_unique<RecordFeed>(std::move(source), std::move(sampler), options, tops));
}

}  // namespace taut::data
