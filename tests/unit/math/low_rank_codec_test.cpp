#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/math/codec.hpp"
#include "common/math/codec_bytes.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::math;

namespace {

constexpr std::size_t kRows = 40;
constexpr std::size_t kColumns = 60;

Encoding low_rank(std::uint32_t rank, std::uint32_t columns = kColumns) {
  return {.codec = Codec::kLowRank, .rank = rank, .columns = columns};
}

/// The sum of `strengths[k]` times the product of two vectors that are drawn.
std::vector<float> matrix_of(const std::vector<float>& strengths, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> matrix(kRows * kColumns);
  for (const float strength : strengths) {
    std::vector<float> left(kRows);
    std::vector<float> right(kColumns);
    for (float& value : left) value = normal(random);
    for (float& value : right) value = normal(random);
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      matrix[i] += strength * left[i / kColumns] * right[i % kColumns];
    }
  }
  return matrix;
}

struct Writer {
  explicit Writer(const Encoding& of, std::size_t count = kRows * kColumns)
      : encoding(of), state(state_values(of, count)) {}
  /// What is read of an update.
  std::vector<float> send(const std::vector<float>& values) {
    bytes.resize(encoded_bytes(encoding, values.size()));
    encode(encoding, values, draw_of(7, clock++, 1, 2, 3), bytes.data(), state);
    std::vector<float> read(values.size());
    decode(encoding, bytes.data(), values.size(), 0, read);
    return read;
  }
  void forget_residual(std::size_t count) { std::fill_n(state.begin(), count, 0.0F); }

  Encoding encoding;
  std::vector<float> state;
  std::vector<std::byte> bytes;
  std::uint64_t clock = 0;
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(squares);
}

double length(const std::vector<float>& a) {
  return distance(a, std::vector<float>(a.size()));
}

}  // namespace

TEST_CASE("the bytes of two factors are those of their formula", "[codec]") {
  CHECK(encoded_bytes(low_rank(2), 2400) == 4 * 2 * (40 + 60));
  CHECK(encoded_bytes(low_rank(3), 2401) == 4 * 3 * (41 + 60));
  // Fewer values than the rank's rows or columns.
  CHECK(encoded_bytes(low_rank(8), 61) == 4 * 2 * (2 + 60));
  CHECK(encoded_bytes(low_rank(8), 59) == 4 * 1 * (1 + 59));
  CHECK(encoded_bytes(low_rank(8, 1), 59) == 4 * 1 * (59 + 1));
  CHECK(encoded_bytes(low_rank(8), 0) == 0);
  CHECK(state_values(low_rank(2), 2400) == 2400 + 2 * 60);
  CHECK(state_values(low_rank(8), 0) == 0);
}

TEST_CASE("a matrix of no higher rank arrives as it is", "[codec]") {
  for (const std::uint32_t rank : {1U, 2U, 5U}) {
    const auto matrix = matrix_of({3, 2, 1, 0.5F, 0.25F});
    const auto lower = matrix_of(std::vector<float>(rank, 1));
    Writer writer(low_rank(rank));
    CHECK(distance(writer.send(lower), lower) < 1e-4 * length(lower));
    Writer other(low_rank(rank));
    const bool arrives = distance(other.send(matrix), matrix) < 1e-4 * length(matrix);
    CHECK(arrives == (rank == 5));
  }
}

TEST_CASE("what is read of a matrix and what is left of it add up to it", "[codec]") {
  const auto matrix = matrix_of({3, 2, 1});
  // The last row is a part of one.
  for (const std::size_t count : {1UL, 59UL, 61UL, 2375UL, 2400UL}) {
    const std::vector<float> values(matrix.begin(),
                                    matrix.begin() + static_cast<std::ptrdiff_t>(count));
    Writer writer(low_rank(2), count);
    const auto read = writer.send(values);
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) {
      all = all && std::abs(read[i] + writer.state[i] - values[i]) <= 1e-5F;
    }
    CHECK(all);
  }
}

TEST_CASE("factors that begin where the last ones ended come to the nearest of their rank",
          "[codec]") {
  // Orthogonal directions, of which the two strongest have to be found.
  std::vector<float> matrix(kRows * kColumns);
  for (std::size_t k = 0; k < 10; ++k) {
    matrix[k * kColumns + k] = std::pow(0.8F, static_cast<float>(k));
  }
  const double nearest = [] {
    double squares = 0;
    for (int k = 2; k < 10; ++k) squares += std::pow(0.8, 2 * k);
    return std::sqrt(squares);
  }();
  Writer writer(low_rank(2));
  double first = 0;
  double last = 0;
  for (int clock = 0; clock < 60; ++clock) {
    last = distance(writer.send(matrix), matrix);
    if (clock == 0) first = last;
    writer.forget_residual(matrix.size());
  }
  CHECK(first > 1.05 * nearest);
  CHECK(last >= 0.9999 * nearest);
  CHECK(last <= 1.001 * nearest);
}

TEST_CASE("of many updates of a high rank, all but a bounded residual has arrived", "[codec]") {
  const auto gradient = matrix_of({1, 1, 1, 1, 1, 1, 1, 1});
  Writer writer(low_rank(1));
  std::vector<double> arrived(gradient.size());
  double largest = 0;
  constexpr int kClocks = 400;
  for (int clock = 0; clock < kClocks; ++clock) {
    const auto read = writer.send(gradient);
    for (std::size_t i = 0; i < read.size(); ++i) arrived[i] += read[i];
    const std::vector<float> residual(
        writer.state.begin(), writer.state.begin() + static_cast<std::ptrdiff_t>(gradient.size()));
    largest = std::max(largest, length(residual));
  }
  CHECK(largest < 40 * length(gradient));
  bool all = true;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double pushed = kClocks * double{gradient[i]};
    all = all && std::abs(arrived[i] + writer.state[i] - pushed) <= 1e-3 + 1e-5 * std::abs(pushed);
  }
  CHECK(all);
}

TEST_CASE("a direction that a matrix lacks is sent as zeros and taken up when it comes",
          "[codec]") {
  Writer writer(low_rank(2));
  const auto one = matrix_of({1});
  for (int clock = 0; clock < 5; ++clock) (void)writer.send(one);
  const auto weight = [&](std::size_t i) { return load<float>(writer.bytes.data(), kRows + i); };
  for (std::size_t i = 0; i < kRows; ++i) CHECK(weight(i) == 0);
  writer.forget_residual(one.size());
  const auto both = matrix_of({1, 1});
  CHECK(distance(writer.send(both), both) < 1e-4 * length(both));
  // Nothing to send.
  Writer idle(low_rank(2));
  const std::vector<float> zeros(one.size());
  CHECK(idle.send(zeros) == zeros);
  CHECK(distance(idle.send(both), both) < 1e-4 * length(both));
}

TEST_CASE("a matrix that is not finite is read as no numbers and leaves its state", "[codec]") {
  Writer writer(low_rank(2));
  auto matrix = matrix_of({1, 1, 1});
  (void)writer.send(matrix);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const auto before = writer.state;
    matrix[100] = bad;
    const auto read = writer.send(matrix);
    CHECK(std::ranges::all_of(read, [](float value) { return std::isnan(value); }));
    CHECK(std::memcmp(writer.state.data(), before.data(), before.size() * sizeof(float)) == 0);
  }
  // Finite, and its factors are not.
  Writer large(low_rank(1));
  const auto read = large.send(std::vector<float>(kRows * kColumns, 3e38F));
  CHECK(std::ranges::all_of(read, [](float value) { return std::isnan(value); }));
}
