#pragma once

#include <cstdint>
#include <optional>

#include "common/math/codec.hpp"
#include "common/net/buffer_pool.hpp"
#include "common/net/message.hpp"
#include "common/ssp/slice_layout.hpp"

namespace taut::server {

/// A slice's values as members read them: encoded as the job's compression specifies, once per
/// application, since all readers get the same bytes.
/// Thread    shard thread
class PulledValues {
 public:
  /// pool  for the encoded bytes; outlives this
  PulledValues(const math::Encoding& encoding, std::uint64_t seed, const Slice& place,
               BufferPool& pool)
      : encoding_(encoding), seed_(seed), place_(place), pool_(pool) {}

  [[nodiscard]] const math::Encoding& encoding() const { return encoding_; }

  /// values        the slice's
  /// applications  how many applications produced them. Stochastic rounding draws from this number,
  ///               so that a repeated or resumed run yields the same bits.
  /// Throws std::bad_alloc.
  [[nodiscard]] Frame of(const Buffer& values, std::int64_t applications) {
    if (encoding_ == math::Encoding()) return Frame(values);
    if (applications_ != applications) {
      encoded_ = {};  // if no reader has it any more, its memory is reused
      applications_.reset();
      Buffer encoded = pool_.acquire(math::encoded_bytes(encoding_, place_.count));
      const math::Draw draw = math::draw_of(seed_, static_cast<std::uint64_t>(applications), kSlot,
                                            place_.table.value(), place_.slice.value());
      math::encode(encoding_, values.floats(), draw, encoded.data());
      encoded_ = Frame(encoded);
      applications_ = applications;
    }
    return encoded_;
  }

 private:
  // Used in place of a worker's slot: a stream of random numbers that no push uses.
  static constexpr std::uint32_t kSlot = 65535;

  const math::Encoding encoding_;
  const std::uint64_t seed_;
  const Slice place_;
  BufferPool& pool_;
  Frame encoded_;
  std::optional<std::int64_t> applications_;  // that produced `encoded_`; nullopt if it is empty
};

}  // namespace taut::server
