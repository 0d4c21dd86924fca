#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/math/codec.hpp"

// The codecs that send a part of an update and keep the rest for later ones. Reached through
// codec.hpp. In all of them the worker encodes s = values + residual, and keeps s minus the value
// that the receiver decodes; if a value of s is not finite, it decodes NaNs and the residual stays.
namespace taut::math::feedback {

/// Values whose places in a block of TOP_K fit into 16 bits.
inline constexpr std::size_t kPlaces = 65536;

/// residual += values, unless a sum is not finite: then returns false, and nothing changes.
[[nodiscard]] bool add_up(std::span<const float> values, float* residual);

/// The number of values sent: one in `every` of `count`.
[[nodiscard]] std::uint64_t kept_of(std::uint64_t count, std::uint32_t every);

/// Where the parts of a TOP_K payload begin, in bytes: for each block the number of values up to
/// its end, then the places of all values in their blocks, then the values.
struct TopKLayout {
  TopKLayout(std::uint64_t count, std::uint32_t every);

  std::uint64_t blocks;
  std::uint64_t kept;
  std::uint64_t places;  // a multiple of 4
  std::uint64_t values;  // a multiple of 2
};

[[nodiscard]] std::uint64_t one_bit_bytes(std::uint64_t count);
[[nodiscard]] std::uint64_t top_k_bytes(std::uint64_t count, std::uint32_t every);
[[nodiscard]] std::uint64_t random_k_bytes(std::uint64_t count, std::uint32_t every);

/// A block of 256 values is decoded as two: the mean of its values that are at least 0, and the
/// mean of the others.
/// Source    Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
///           Distributed Training of Speech DNNs", Interspeech 2014, section 3
void encode_one_bit(std::span<const float> values, std::span<float> residual, std::byte* out);
void decode_one_bit(const std::byte* bytes, std::size_t begin, std::span<float> out);

/// Sends the values of the largest magnitudes; ties go to the first.
/// Source    Aji, Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017
void encode_top_k(std::span<const float> values, std::uint32_t every, std::span<float> residual,
                  std::byte* out);
void decode_top_k(const std::byte* bytes, std::size_t count, std::uint32_t every, std::size_t begin,
                  std::span<float> out);
/// Adds `scale` times the kept values of a part to `sum`, which begins at `begin`. Returns false if
/// a product is -0: `sum`, to which no +0 is added elsewhere, may then differ from decoded parts'.
[[nodiscard]] bool add_top_k(const std::byte* bytes, std::size_t count, std::uint32_t every,
                             std::size_t begin, float scale, std::span<float> sum);
/// Whether places ascend and are within the slice.
[[nodiscard]] bool is_top_k(const std::byte* bytes, std::uint64_t count, std::uint32_t every);

/// Sends one of every `every` values in a row, drawn uniformly; both sides draw the same.
/// Source    Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018, here with one
///           draw from each stretch in place of k from all
void encode_random_k(std::span<const float> values, std::uint32_t every, std::span<float> residual,
                     const Draw& draw, std::byte* out);
void decode_random_k(const std::byte* bytes, std::size_t count, std::uint32_t every,
                     std::size_t begin, std::span<float> out);
/// As add_top_k().
[[nodiscard]] bool add_random_k(const std::byte* bytes, std::size_t count, std::uint32_t every,
                                std::size_t begin, float scale, std::span<float> sum);

}  // namespace taut::math::feedback
