#include "cuda/kernels/encoding/low_rank.hpp"

#include "common/math/codec_elements.hpp"
#include "common/math/low_rank_codec.hpp"
#include "common/math/philox.hpp"
#include "cuda/kernels/encoding/findings.cuh"

namespace taut::cuda {
namespace {

constexpr unsigned kLanes = math::kRowLanes;
constexpr unsigned kProducts = kThreads / kLanes;  // of rows, that a block computes at a time
static_assert(kThreads == math::kColumnLanes);

/// A slice as a matrix, and its factors.
struct Factors {
  std::int64_t count;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t rank;
  float* matrix;  // [count], row by row: the residual, with the update
  float* kept;    // [rank, columns]: the right factor of the last update
  double* exact;  // [rank, rows]: the left factor
  float* left;    // the same, as it is sent
  float* right;   // [rank, columns]

  /// How many values of row i belong to the slice.
  __device__ std::int64_t length_of(std::int64_t i) const {
    const std::int64_t rest = count - i * columns;
    return rest < columns ? rest : columns;
  }
};

/// Whether any value of a factor's row is not 0; called by all threads of a block.
__device__ bool has_values(const float* row, std::int64_t columns) {
  bool found = false;
  for (std::int64_t j = threadIdx.x; j < columns; j += kThreads) found = found || row[j] != 0;
  return __syncthreads_or(found ? 1 : 0) != 0;
}

/// Draws the rows of the kept factor that are 0, as all are at first; one row per block.
__global__ void __launch_bounds__(kThreads)
    draw_missing_kernel(Factors factors, math::Draw draw, Findings sums) {
  if (!all_finite(sums)) return;
  float* const row = factors.kept + blockIdx.x * factors.columns;
  if (has_values(row, factors.columns)) return;
  const std::int64_t calls = (factors.columns + 3) / 4;
  for (std::int64_t j = threadIdx.x; j < factors.columns; j += kThreads) {
    const std::uint64_t call = draw.first + static_cast<std::uint64_t>(blockIdx.x * calls + j / 4);
    row[j] = math::drawn_factor(math::Philox::at(draw.key, draw.stream, call).words[j % 4]);
  }
}

/// Products of the matrix's rows with those of the kept factor.
__global__ void __launch_bounds__(kThreads) multiply_rows_kernel(Factors factors, Findings sums) {
  if (!all_finite(sums)) return;
  const std::int64_t products = factors.rank * factors.rows;
  const unsigned lane = threadIdx.x % kLanes;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kProducts; first < products;
       first += static_cast<std::int64_t>(gridDim.x) * kProducts) {
    const std::int64_t product = first + threadIdx.x / kLanes;
    double own = 0;
    if (product < products) {
      const std::int64_t i = product % factors.rows;
      const float* const a = factors.matrix + i * factors.columns;
      const float* const b = factors.kept + product / factors.rows * factors.columns;
      for (std::int64_t j = lane; j < factors.length_of(i); j += kLanes) {
        own += static_cast<double>(a[j]) * static_cast<double>(b[j]);
      }
    }
    double sum = 0;
    for (unsigned other = 0; other < kLanes; ++other) {
      sum += __shfl_down_sync(kWholeWarp, own, other);
    }
    if (product < products && lane == 0) factors.exact[product] = sum;
  }
}

/// The product of two rows of the left factor; each thread sums its lane. Returned to every
/// thread.
__device__ double multiply_columns(const double* a, const double* b, std::int64_t count) {
  using Lanes = double[kThreads];
  TAUT_SHARED(Lanes, lanes);
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) own += a[i] * b[i];
  __syncthreads();  // waits for an earlier call's readers
  lanes[threadIdx.x] = own;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
  }
  __syncthreads();
  return lanes[0];
}

/// Gram-Schmidt over the left factor: one block, each thread with its lane of every row.
__global__ void __launch_bounds__(kThreads) orthonormalize_kernel(Factors factors, Findings sums) {
  if (!all_finite(sums)) return;
  for (std::int64_t k = 0; k < factors.rank; ++k) {
    double* const row = factors.exact + k * factors.rows;
    const double before = sqrt(multiply_columns(row, row, factors.rows));
    for (std::int64_t other = 0; other < k; ++other) {
      const double* const basis = factors.exact + other * factors.rows;
      const double along = multiply_columns(basis, row, factors.rows);
      for (std::int64_t i = threadIdx.x; i < factors.rows; i += kThreads) {
        row[i] -= along * basis[i];
      }
    }
    const double rest = sqrt(multiply_columns(row, row, factors.rows));
    const double scale = rest > math::kVanished * before ? 1 / rest : 0;
    for (std::int64_t i = threadIdx.x; i < factors.rows; i += kThreads) {
      row[i] *= scale;
      factors.left[k * factors.rows + i] = static_cast<float>(row[i]);
    }
  }
}

/// The right factor, one element per thread.
__global__ void __launch_bounds__(kThreads)
    multiply_matrix_kernel(Factors factors, Findings sums, Findings products) {
  if (!all_finite(sums)) return;
  bool found = false;
  for (std::int64_t at = first_index(); at < factors.rank * factors.columns; at += index_step()) {
    const std::int64_t j = at % factors.columns;
    const float* const weights = factors.left + at / factors.columns * factors.rows;
    float sum = 0;
    for (std::int64_t i = 0; i < factors.rows; ++i) {
      const std::int64_t element = i * factors.columns + j;
      if (element < factors.count) sum += weights[i] * factors.matrix[element];
    }
    factors.right[at] = sum;
    found = found || math::is_not_finite(sum);
  }
  note_findings(products, found);
}

/// Subtracts from the matrix what is decoded of it, or sets both factors to NaNs.
__global__ void __launch_bounds__(kThreads)
    take_product_kernel(Factors factors, Findings sums, Findings products) {
  if (!all_finite(sums) || !all_finite(products)) {
    const std::int64_t numbers = factors.rank * (factors.rows + factors.columns);
    for (std::int64_t i = first_index(); i < numbers; i += index_step()) {
      factors.left[i] = math::no_number();
    }
    return;
  }
  for (std::int64_t at = first_index(); at < factors.count; at += index_step()) {
    const std::int64_t i = at / factors.columns;
    const std::int64_t j = at % factors.columns;
    float read = factors.left[i] * factors.right[j];
    for (std::int64_t k = 1; k < factors.rank; ++k) {
      read += factors.left[k * factors.rows + i] * factors.right[k * factors.columns + j];
    }
    factors.matrix[at] -= read;
  }
}

/// Keeps the right factor's rows that are not 0; one row per block.
__global__ void __launch_bounds__(kThreads)
    keep_factor_kernel(Factors factors, Findings sums, Findings products) {
  if (!all_finite(sums) || !all_finite(products)) return;
  const float* const row = factors.right + blockIdx.x * factors.columns;
  if (!has_values(row, factors.columns)) return;
  float* const kept = factors.kept + blockIdx.x * factors.columns;
  for (std::int64_t j = threadIdx.x; j < factors.columns; j += kThreads) kept[j] = row[j];
}

math::low_rank::Shape shape_of(const math::Encoding& encoding, std::int64_t count) {
  return {encoding, static_cast<std::uint64_t>(count)};
}

}  // namespace

void encode_low_rank(cudaStream_t stream, const math::Encoding& encoding, const math::Draw& draw,
                     const EncodedSlice& slice, void* scratch) {
  const math::low_rank::Shape shape = shape_of(encoding, slice.count);
  auto* const memory = static_cast<std::byte*>(scratch);
  auto* const left = reinterpret_cast<float*>(slice.out);
  const Factors factors{slice.count,
                        static_cast<std::int64_t>(shape.rows),
                        static_cast<std::int64_t>(shape.columns),
                        static_cast<std::int64_t>(shape.rank),
                        slice.state,
                        slice.state + slice.count,
                        reinterpret_cast<double*>(memory + 2 * kFindingsBytes),
                        left,
                        left + shape.rank * shape.rows};
  const std::int64_t products = factors.rank * factors.rows;
  const auto rank = static_cast<unsigned>(factors.rank);
  const std::int64_t kept = factors.rank * factors.columns;
  const Findings sums = add_up(stream, slice, memory);
  launch({stream, "draw_missing", kept, rank}, draw_missing_kernel, factors, draw, sums);
  launch({stream, "multiply_rows", slice.count, blocks_for(products, kProducts)},
         multiply_rows_kernel, factors, sums);
  launch({stream, "orthonormalize", products}, orthonormalize_kernel, factors, sums);
  const Findings found = findings_for(kept, memory + kFindingsBytes);
  launch({stream, "multiply_matrix", slice.count, found.parts}, multiply_matrix_kernel, factors,
         sums, found);
  launch({stream, "take_product", slice.count, blocks_for(slice.count)}, take_product_kernel,
         factors, sums, found);
  launch({stream, "keep_factor", kept, rank}, keep_factor_kernel, factors, sums, found);
}

std::size_t low_rank_scratch(const math::Encoding& encoding, std::int64_t count) {
  const math::low_rank::Shape shape = shape_of(encoding, count);
  return 2 * kFindingsBytes + shape.rank * shape.rows * sizeof(double);
}

}  // namespace taut::cuda
