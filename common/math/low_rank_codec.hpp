#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/math/codec.hpp"

// PowerSGD's codec: a slice is taken as a matrix, row by row, and its two factors are sent. Reached
// through codec.hpp. Residuals are as in feedback_codec.hpp.
// Source    Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
//           Distributed Optimization", NeurIPS 2019, algorithm 1, here for each worker separately:
//           servers add the products, so that no worker waits for the others' factors
namespace taut::math::low_rank {

/// The shape of a slice as a matrix: row by row, with zeros at the end of the last row.
struct Shape {
  Shape(const Encoding& encoding, std::uint64_t values);

  std::uint64_t count;
  std::uint64_t columns;
  std::uint64_t rows;
  std::uint64_t rank;

  [[nodiscard]] std::uint64_t factor_values() const { return rank * columns; }
};

/// The bytes of the left factor [rank, rows] and the right one [rank, columns], in float32.
[[nodiscard]] std::uint64_t bytes(const Shape& shape);

/// One step of subspace iteration from the right factor of the last update: with M = values +
/// residual and Q' that factor, P = M Q'^T made orthonormal, Q = P^T M; M is decoded as P Q. A
/// direction that M does not have is sent as zeros, and its row of Q' stays.
/// state  the residual [count], then Q' [rank, columns]: rows of it that are 0 are drawn
/// Throws std::bad_alloc.
void encode(const Shape& shape, std::span<const float> values, std::span<float> state,
            const Draw& draw, std::byte* out);
void decode(const Shape& shape, const std::byte* bytes, std::size_t begin, std::span<float> out);
/// sum = scale * what decode() returns, or += that if not the first; with the same bits.
void sum_product(const Shape& shape, const std::byte* bytes, std::size_t begin, float scale,
                 bool is_first, std::span<float> sum);

}  // namespace taut::math::low_rank
