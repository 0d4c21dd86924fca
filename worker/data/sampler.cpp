#include "worker/data/sampler.hpp"

#include <fmt/format.h>

#include <bit>
#include <string_view>

#include "common/math/philox.hpp"

namespace taut::data {
namespace {

/// A permutation of [0, size) for every pass, computed element by element.
class PassOrder {
 public:
  PassOrder(std::uint64_t size, std::uint64_t key) : size_(size), key_(key) {
    const auto bits = static_cast<unsigned>(std::bit_width(size - 1));
    half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
  }

  /// The domain is less than four times the size, so a walk takes fewer than four steps on average.
  [[nodiscard]] std::uint64_t at(std::uint64_t pass, std::uint64_t place) const {
    std::uint64_t value = place;
    do {
      value = encrypt(pass, value);
    } while (value >= size_);
    return value;
  }

 private:
  [[nodiscard]] std::uint64_t encrypt(std::uint64_t pass, std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const math::Philox draw = math::Philox::at(key_, pass, round << 32U | right);
      const std::uint64_t mixed = left ^ (draw.words[0] & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t size_;
  std::uint64_t key_;
  unsigned half_bits_ = 1;
};

/// A different key for each use of a seed and for each share.
std::uint64_t order_key(std::uint64_t seed, std::uint32_t slot) {
  constexpr std::string_view kUse = "data order";
  const math::Philox draw =
      math::Philox::at(seed, math::name_stream(kUse.data(), kUse.size()), slot);
  return std::uint64_t{draw.words[1]} << 32U | draw.words[0];
}

/// The number of the draw at a place of a batch, counted from the first clock.
std::uint64_t drawn(const Share& share, std::uint32_t batch, Clock clock, std::uint32_t i) {
  const auto batches = static_cast<std::uint64_t>(clock.value());
  return batches * share.places(batch) + share.first_place(batch) + i;
}

class ShuffledSampler final : public Sampler {
 public:
  ShuffledSampler(std::uint64_t share_size, Share share, std::uint32_t batch, std::uint64_t seed)
      : share_size_(share_size),
        share_(share),
        batch_(batch),
        order_(share_size, order_key(seed, share.slot)) {}

  std::uint32_t batch() const override { return batch_; }
  std::uint64_t index(Clock clock, std::uint32_t i) const override {
    const std::uint64_t number = drawn(share_, batch_, clock, i);
    const std::uint64_t place = order_.at(number / share_size_, number % share_size_);
    return share_.slot + place * share_.slots;
  }

 private:
  std::uint64_t share_size_;
  Share share_;
  std::uint32_t batch_;
  PassOrder order_;
};

class OrderedSampler final : public Sampler {
 public:
  OrderedSampler(std::uint64_t share_size, Share share, std::uint32_t batch)
      : share_size_(share_size), share_(share), batch_(batch) {}

  std::uint32_t batch() const override { return batch_; }
  std::uint64_t index(Clock clock, std::uint32_t i) const override {
    return share_.slot + drawn(share_, batch_, clock, i) % share_size_ * share_.slots;
  }

 private:
  std::uint64_t share_size_;
  Share share_;
  std::uint32_t batch_;
};

/// The Feistel network's halves are drawn from 32-bit words.
constexpr std::uint64_t kMaxRecords = 1ULL << 62;

Result<void> check(std::uint64_t records, std::uint32_t batch) {
  if (batch == 0) return invalid("the batch must be at least 1, is 0");
  if (records > 0 && records <= kMaxRecords) return ok();
  return invalid(
      fmt::format("the data set has {} records; 1 to {} can be drawn from", records, kMaxRecords));
}

/// Records of a share. Errors: invalid.
Result<std::uint64_t> share_size(std::uint64_t records, const Share& share, std::uint32_t batch) {
  TAUT_TRY(check(records, batch));
  if (share.slot >= share.slots) {
    return invalid(fmt::format("slot {} of {} slots: slots count from 0", share.slot, share.slots));
  }
  if (share.slot >= records) {
    return invalid(
        fmt::format("slot {} of {} has no records: the data set has {}; use fewer workers",
                    share.slot, share.slots, records));
  }
  return (records - share.slot + share.slots - 1) / share.slots;
}

}  // namespace

Result<std::unique_ptr<Sampler>> shuffled_sampler(std::uint64_t records, Share share,
                                                  std::uint32_t batch, std::uint64_t seed) {
  TAUT_TRY(const std::uint64_t size, share_size(records, share, batch));
  return std::unique_ptr<Sampler>(std::make_unique<ShuffledSampler>(size, share, batch, seed));
}

Result<std::unique_ptr<Sampler>> ordered_sampler(std::uint64_t records, Share share,
                                                 std::uint32_t batch) {
  TAUT_TRY(const std::uint64_t size, share_size(records, share, batch));
  return std::unique_ptr<Sampler>(std::make_unique<OrderedSampler>(size, share, batch));
}

Result<std::unique_ptr<Sampler>> sequential_sampler(std::uint64_t records, std::uint32_t batch) {
  return ordered_sampler(records, Share{}, batch);
}

}  // namespace taut::data
