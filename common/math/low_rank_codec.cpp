#include "common/math/low_rank_codec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "common/math/codec_bytes.hpp"
#include "common/math/codec_elements.hpp"
#include "common/math/feedback_codec.hpp"
#include "common/math/philox.hpp"
#include "common/math/vectorised.hpp"

namespace taut::math::low_rank {
namespace {

constexpr std::size_t kLanes = kRowLanes;

/// For rows of a matrix and of the right factor.
TAUT_VECTORISED double dot(const float* a, const float* b, std::size_t count) {
  std::array<double, kLanes> lanes{};
  const std::size_t whole = count / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  for (std::size_t i = whole; i < count; ++i) {
    lanes[i - whole] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// For rows of the left factor.
TAUT_VECTORISED double dot(const double* a, const double* b, std::size_t count) {
  alignas(64) std::array<double, kColumnLanes> lanes{};
  const std::size_t whole = count / kColumnLanes * kColumnLanes;
  for (std::size_t i = 0; i < whole; i += kColumnLanes) {
    for (std::size_t lane = 0; lane < kColumnLanes; ++lane) {
      lanes[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (std::size_t i = whole; i < count; ++i) lanes[i - whole] += a[i] * b[i];
  for (std::size_t half = kColumnLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

TAUT_VECTORISED void add_scaled(float factor, const float* values, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] += factor * values[i];
}

/// out (+)= factor * the values from `first` on.
TAUT_VECTORISED void read_scaled(float factor, const std::byte* bytes, std::size_t first,
                                 std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = factor * load<float>(bytes, first + i);
}
TAUT_VECTORISED void read_added(float factor, const std::byte* bytes, std::size_t first,
                                std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] += factor * load<float>(bytes, first + i);
}

using Lanes = std::array<float, kLanes>;

/// A row of the left factor, and where the right one has the columns that it is multiplied with.
struct Row {
  std::array<float, kMaxRank> weights;
  std::uint64_t rank;
  const std::byte* right;
  std::uint64_t columns;
  std::uint64_t column;
};

/// Elements of a row's product in `count` lanes from `i` on, each as decode() computes it.
inline void multiply(const Row& row, std::size_t i, std::size_t count, Lanes& product) {
  for (std::size_t lane = 0; lane < count; ++lane) {
    product[lane] = row.weights[0] * load<float>(row.right, row.column + i + lane);
  }
  for (std::uint64_t k = 1; k < row.rank; ++k) {
    const std::uint64_t first = k * row.columns + row.column + i;
    for (std::size_t lane = 0; lane < count; ++lane) {
      product[lane] += row.weights[k] * load<float>(row.right, first + lane);
    }
  }
}

TAUT_VECTORISED void set_product(const Row& row, float scale, std::size_t count, float* sum) {
  Lanes product{};
  const std::size_t whole = count / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    multiply(row, i, kLanes, product);
    for (std::size_t lane = 0; lane < kLanes; ++lane) sum[i + lane] = scale * product[lane];
  }
  multiply(row, whole, count - whole, product);
  for (std::size_t i = whole; i < count; ++i) sum[i] = scale * product[i - whole];
}

TAUT_VECTORISED void add_product(const Row& row, float scale, std::size_t count, float* sum) {
  Lanes product{};
  const std::size_t whole = count / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    multiply(row, i, kLanes, product);
    for (std::size_t lane = 0; lane < kLanes; ++lane) sum[i + lane] += scale * product[lane];
  }
  multiply(row, whole, count - whole, product);
  for (std::size_t i = whole; i < count; ++i) sum[i] += scale * product[i - whole];
}

/// Rows of the right factor that are 0, as all are at first, become uniform in [-1, 1].
void draw_missing(const Shape& shape, std::span<float> factor, const Draw& draw) {
  const std::uint64_t calls = (shape.columns + 3) / 4;
  for (std::uint64_t k = 0; k < shape.rank; ++k) {
    const auto row = factor.subspan(k * shape.columns, shape.columns);
    if (std::ranges::any_of(row, [](float value) { return value != 0; })) continue;
    for (std::uint64_t j = 0; j < shape.columns; ++j) {
      const Philox drawn = Philox::at(draw.key, draw.stream, draw.first + k * calls + j / 4);
      row[j] = drawn_factor(drawn.words[j % 4]);
    }
  }
}

/// Gram-Schmidt over the rows of [rank, length]. A row that depends on earlier ones becomes zeros.
void orthonormalize(std::vector<double>& rows, std::uint64_t rank, std::uint64_t length) {
  const auto product = [&](std::uint64_t a, std::uint64_t b) {
    return dot(rows.data() + a * length, rows.data() + b * length, length);
  };
  for (std::uint64_t k = 0; k < rank; ++k) {
    const double before = std::sqrt(product(k, k));
    for (std::uint64_t other = 0; other < k; ++other) {
      const double along = product(other, k);
      for (std::uint64_t i = 0; i < length; ++i) {
        rows[k * length + i] -= along * rows[other * length + i];
      }
    }
    const double left = std::sqrt(product(k, k));
    const double scale = left > kVanished * before ? 1 / left : 0;
    for (std::uint64_t i = 0; i < length; ++i) rows[k * length + i] *= scale;
  }
}

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// How many values of a row belong to the slice.
std::uint64_t length_of(const Shape& shape, std::uint64_t row) {
  return std::min(shape.columns, shape.count - row * shape.columns);
}

/// Writes a matrix's factors to `out`. Returns false if they overflow: only `out` has changed.
bool factorize(const Shape& shape, const float* matrix, std::span<float> factor, std::byte* out) {
  std::vector<double> left(shape.rank * shape.rows);
  for (std::uint64_t k = 0; k < shape.rank; ++k) {
    for (std::uint64_t i = 0; i < shape.rows; ++i) {
      left[k * shape.rows + i] =
          dot(matrix + i * shape.columns, factor.data() + k * shape.columns, length_of(shape, i));
    }
  }
  orthonormalize(left, shape.rank, shape.rows);
  std::vector<float> right(shape.factor_values());
  for (std::uint64_t k = 0; k < shape.rank; ++k) {
    for (std::uint64_t i = 0; i < shape.rows; ++i) {
      const auto weight = static_cast<float>(left[k * shape.rows + i]);
      store(out, k * shape.rows + i, weight);
      add_scaled(weight, matrix + i * shape.columns, length_of(shape, i),
                 right.data() + k * shape.columns);
    }
  }
  if (!is_finite(right)) return false;
  std::memcpy(out + left.size() * sizeof(float), right.data(), right.size() * sizeof(float));
  for (std::uint64_t k = 0; k < shape.rank; ++k) {
    const auto row = std::span(right).subspan(k * shape.columns, shape.columns);
    if (std::ranges::all_of(row, [](float value) { return value == 0; })) continue;
    std::ranges::copy(row, factor.begin() + static_cast<std::ptrdiff_t>(k * shape.columns));
  }
  return true;
}

}  // namespace

Shape::Shape(const Encoding& encoding, std::uint64_t values)
    : count(values),
      columns(std::min<std::uint64_t>(encoding.columns, count)),
      rows(columns == 0 ? 0 : (count + columns - 1) / columns),
      rank(std::min({std::uint64_t{encoding.rank}, rows, columns})) {}

std::uint64_t bytes(const Shape& shape) {
  return sizeof(float) * shape.rank * (shape.rows + shape.columns);
}

void encode(const Shape& shape, std::span<const float> values, std::span<float> state,
            const Draw& draw, std::byte* out) {
  const auto residual = state.first(values.size());
  const auto factor = state.subspan(values.size());
  bool is_finite = feedback::add_up(values, residual.data());
  if (is_finite) {
    draw_missing(shape, factor, draw);
    is_finite = factorize(shape, residual.data(), factor, out);
  }
  if (!is_finite) {
    for (std::uint64_t i = 0; i < bytes(shape) / sizeof(float); ++i) {
      store(out, i, std::numeric_limits<float>::quiet_NaN());
    }
    return;
  }
  std::vector<float> read(shape.columns);
  for (std::uint64_t i = 0; i < shape.rows; ++i) {
    const std::uint64_t length = length_of(shape, i);
    decode(shape, out, i * shape.columns, std::span(read).first(length));
    add_scaled(-1, read.data(), length, residual.data() + i * shape.columns);
  }
}

void decode(const Shape& shape, const std::byte* bytes, std::size_t begin, std::span<float> out) {
  const std::byte* const right = bytes + shape.rank * shape.rows * sizeof(float);
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t row = (begin + done) / shape.columns;
    const std::uint64_t column = (begin + done) % shape.columns;
    const std::size_t length = std::min(out.size() - done, shape.columns - column);
    for (std::uint64_t k = 0; k < shape.rank; ++k) {
      const float weight = load<float>(bytes, k * shape.rows + row);
      const auto read = k == 0 ? read_scaled : read_added;
      read(weight, right, k * shape.columns + column, length, out.data() + done);
    }
    done += length;
  }
}

void sum_product(const Shape& shape, const std::byte* bytes, std::size_t begin, float scale,
                 bool is_first, std::span<float> sum) {
  Row row{{}, shape.rank, bytes + shape.rank * shape.rows * sizeof(float), shape.columns, 0};
  for (std::size_t done = 0; done < sum.size();) {
    const std::uint64_t number = (begin + done) / shape.columns;
    row.column = (begin + done) % shape.columns;
    const std::size_t length = std::min(sum.size() - done, shape.columns - row.column);
    for (std::uint64_t k = 0; k < shape.rank; ++k) {
      row.weights[k] = load<float>(bytes, k * shape.rows + number);
    }
    const auto take = is_first ? set_product : add_product;
    take(row, scale, length, sum.data() + done);
    done += length;
  }
}

}  // namespace taut::math::low_rank
