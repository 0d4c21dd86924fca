#include <utility>

#include "common/math/philox.hpp"
#include "worker/data/feed.hpp"

namespace taut::data {
namespace {

class DummyFeed final : public Feed {
 public:
  DummyFeed(std::vector<DummyTop> tops, std::uint64_t key, std::size_t part)
      : tops_(std::move(tops)), key_(key), part_(part) {
    for (const DummyTop& top : tops_) elements_.push_back(top.elements);
  }

  const std::vector<std::size_t>& elements() const override { return elements_; }

  bool is_constant(std::size_t top) const override {
    return tops_[top].classes == 0 && tops_[top].filler.kind == math::Filler::Kind::kConstant;
  }

  Result<void> fill(Clock clock, std::span<const std::span<float>> tops) override {
    for (std::size_t top = 0; top < tops_.size(); ++top) {
      // Each top and clock have their own stream.
      const std::uint64_t stream = static_cast<std::uint64_t>(clock.value()) * tops_.size() + top;
      fill_top(tops_[top], stream, tops[top]);
    }
    return ok();
  }

 private:
  void fill_top(const DummyTop& top, std::uint64_t stream, std::span<float> values) const {
    // A part's elements follow those of the earlier parts.
    const std::size_t first = part_ * values.size();
    for (std::size_t place = 0; place < values.size(); ++place) {
      const std::size_t i = first + place;
      if (top.classes == 0) {
        values[place] = math::initial_value(top.filler, key_, stream, i);
        continue;
      }
      const std::uint32_t word = math::Philox::at(key_, stream, i / 4).words[i % 4];
      values[place] = static_cast<float>(
          (std::uint64_t{word} * static_cast<std::uint64_t>(top.classes)) >> 32U);
    }
  }

  const std::vector<DummyTop> tops_;
  const std::uint64_t key_;
  const std::size_t part_;  // of the worker's batch
  std::vector<std::size_t> elements_;
};

}  // namespace

std::unique_ptr<Feed> dummy_feed(std::vector<DummyTop> tops, const FeedOptions& options,
                                 const std::string& layer) {
  const std::uint64_t key =
      draw_key(options.seed, options.share.slot) ^ math::name_stream(layer.data(), layer.size());
  return std::make_unique<DummyFeed>(std::move(tops), key, options.share.part);
}

}  // namespace taut::data
