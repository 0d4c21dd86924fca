#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace taut::math {

/// How the numbers of a slice are encoded; all little-endian.
enum class Codec : std::uint8_t {
  kFloat32,
  kFloat16,   // IEEE 754 binary16, rounded to the nearest
  kBfloat16,  // the upper half of a float32, rounded to the nearest
  kInt8,      // blocks of 256: a float32 step, and a whole number in [-127, 127] for each value
  // What the following leave out is kept for later updates: feedback_codec.hpp.
  kOneBit,   // blocks of 256: two float32 means, and a bit for each value
  kTopK,     // the largest values, with their places
  kRandomK,  // values at places that both sides draw
  kLowRank,  // two matrices whose product is near the slice as a matrix
};
inline constexpr std::size_t kCodecs = 8;
inline constexpr std::uint32_t kMaxRank = 64;

/// What a reader must know about a slice's bytes in addition to its count.
struct Encoding {
  Codec codec = Codec::kFloat32;
  std::uint32_t every = 0;    // kTopK and kRandomK: one of this many values is sent, at least 1
  std::uint32_t rank = 0;     // kLowRank: the maximum rank of the product, at least 1
  std::uint32_t columns = 0;  // kLowRank: of the slice as a matrix, row by row, at least 1

  /// Whether its writer keeps what it leaves out.
  [[nodiscard]] bool has_residual() const { return codec >= Codec::kOneBit; }
  [[nodiscard]] bool is_sparse() const { return codec == Codec::kTopK || codec == Codec::kRandomK; }
  friend bool operator==(const Encoding&, const Encoding&) = default;
};

/// Values of a block, each of which has its own step. Decoding starts at a block's first value.
inline constexpr std::size_t kCodecBlock = 256;

/// The bytes of `count` values:
///   float32            4 n
///   float16, bfloat16  2 n
///   int8               n + 4 ceil(n / 256)
///   one bit            ceil(n / 8) + 8 ceil(n / 256)
///   top k              6 k + 4 ceil(n / 65536), where k = ceil(n / every)
///   random k           4 k + 8
///   low rank           4 r (m + c), where c = min(columns, n), m = ceil(n / c) and
///                      r = min(rank, m, c)
/// REQUIRES: count is at most 2^40.
[[nodiscard]] std::uint64_t encoded_bytes(const Encoding& encoding, std::uint64_t count);

/// How many numbers a writer keeps for a slice of `count` values from one update to the next: the
/// residual, and for kLowRank the factor that it starts from, [r, c]. 0 if it keeps nothing.
[[nodiscard]] std::uint64_t state_values(const Encoding& encoding, std::uint64_t count);

/// E.g. "FP16", "TOP_K, one of 100 values", "POWER_SGD of rank 2 and 500 columns".
[[nodiscard]] std::string to_string(const Encoding& encoding);

/// As users write it: FLOAT32, FP16, BF16, INT8, ONE_BIT, TOP_K, RANDOM_K, POWER_SGD.
[[nodiscard]] std::string_view to_string(Codec codec);

/// The source of the random numbers of one slice's encoding: word i is Philox of (key, stream,
/// first + i), so that a push has the same bytes whenever it is encoded.
struct Draw {
  std::uint64_t key = 0;
  std::uint64_t stream = 0;
  std::uint64_t first = 0;
};
/// The draw for what a member sends of a slice at a clock.
/// REQUIRES: slot and table are below 2^16, slice below 2^32, clock below 2^48; the slice has at
/// most 2^18 values.
[[nodiscard]] Draw draw_of(std::uint64_t seed, std::uint64_t clock, std::uint32_t slot,
                           std::uint32_t table, std::uint32_t slice);

/// Encodes a slice's values.
///
/// A block of int8 has the step max / 127, where max is its largest magnitude, and each value is
/// stochastically rounded to a multiple of it, so that its mean is the value. A block with a value
/// that is not finite is decoded as NaNs; one whose largest magnitude is below 2^-100, as
/// zeros.
/// values    [n]
/// out       [encoded_bytes(encoding, n)] at any alignment
/// state     [state_values(encoding, n)], zeros at first: the residual (in: what earlier updates
///           left out; out: what is left out now), then what else is kept. What is not finite is
///           decoded as NaNs: if a sum with the residual is not finite, the state is unchanged,
///           and if only factors of kLowRank are not, the residual becomes the sum
/// Thread    any; no shared state
void encode(const Encoding& encoding, std::span<const float> values, const Draw& draw,
            std::byte* out, std::span<float> state = {});

/// Whether bytes of the right number are valid: only those of kTopK may be invalid.
[[nodiscard]] bool is_well_formed(const Encoding& encoding, const std::byte* bytes,
                                  std::uint64_t count);

/// Reads a part of a slice's values: `out.size()` of them from `begin` on. Reads no byte outside of
/// the slice's, whatever they contain.
/// bytes   all of the slice's, at any alignment
/// count   the slice's
/// REQUIRES: begin is a multiple of kCodecBlock.
/// Thread  any; no shared state
void decode(const Encoding& encoding, const std::byte* bytes, std::size_t count, std::size_t begin,
            std::span<float> out);

}  // namespace taut::math
