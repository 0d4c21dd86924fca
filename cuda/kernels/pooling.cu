#include <cfloat>

#include "common/math/philox.hpp"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/pooling.hpp"

namespace taut::cuda {
namespace {

/// A place in a plane, from an index over all planes.
struct Place {
  std::int64_t plane;
  int y;
  int x;
};

/// Sides fit 32 bits, whose divisions cost far less; only the index over all elements may not.
__device__ Place place_of(std::int64_t i, int h, int w) {
  const std::int64_t area = static_cast<std::int64_t>(h) * w;
  const std::int64_t plane = i < (std::int64_t{1} << 31U)
                                 ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(area)
                                 : i / area;
  const auto rest = static_cast<unsigned>(i - plane * area);
  const auto y = static_cast<int>(rest / static_cast<unsigned>(w));
  return {plane, y, static_cast<int>(rest) - y * w};
}

struct Window {
  int begin;
  int end;
  int padded;  // the divisor of an average: the length within the padded image
};
__device__ Window window_of(int at, int size, int kernel, int stride, int pad) {
  const int begin = at * stride - pad;
  const int end = min(begin + kernel, size + pad);
  return {max(begin, 0), min(end, size), end - begin};
}

/// The windows that cover a place of the bottom.
struct Cover {
  int begin;
  int end;
};
__device__ Cover cover_of(int at, int windows, int kernel, int stride, int pad) {
  const int shifted = at + pad;
  return {shifted < kernel ? 0 : (shifted - kernel) / stride + 1,
          min(shifted / stride + 1, windows)};
}

/// The shape with sides of 32 bits.
struct Sides {
  explicit Sides(const PoolShape& shape)
      : h(static_cast<int>(shape.h)),
        w(static_cast<int>(shape.w)),
        top_h(static_cast<int>(shape.top_h)),
        top_w(static_cast<int>(shape.top_w)),
        kernel_h(static_cast<int>(shape.kernel_h)),
        kernel_w(static_cast<int>(shape.kernel_w)),
        stride_h(static_cast<int>(shape.stride_h)),
        stride_w(static_cast<int>(shape.stride_w)),
        pad_h(static_cast<int>(shape.pad_h)),
        pad_w(static_cast<int>(shape.pad_w)) {}
  __device__ Window rows(int y) const { return window_of(y, h, kernel_h, stride_h, pad_h); }
  __device__ Window columns(int x) const { return window_of(x, w, kernel_w, stride_w, pad_w); }
  __device__ Cover covering_rows(int y) const {
    return cover_of(y, top_h, kernel_h, stride_h, pad_h);
  }
  __device__ Cover covering_columns(int x) const {
    return cover_of(x, top_w, kernel_w, stride_w, pad_w);
  }
  int h, w, top_h, top_w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};

/// One warp for each window, as that of global pooling, whose rows its lanes read side by side.
__global__ void __launch_bounds__(kThreads)
    average_large_windows_kernel(std::int64_t tops, Sides sides, const float* bottom, float* top) {
  constexpr int kWarps = kThreads / 32;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; i < tops;
       i += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const Place place = place_of(i, sides.top_h, sides.top_w);
    const float* plane = bottom + place.plane * sides.h * sides.w;
    const Window rows = sides.rows(place.y);
    const Window columns = sides.columns(place.x);
    const int width = columns.end - columns.begin;
    const int area = (rows.end - rows.begin) * width;
    float sum = 0;
    for (int at = lane; at < area; at += 32) {
      const int y = at / width;
      sum += plane[(rows.begin + y) * sides.w + columns.begin + (at - y * width)];
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(kWholeWarp, sum, offset);
    }
    if (lane == 0) top[i] = sum * (1 / static_cast<float>(rows.padded * columns.padded));
  }
}

std::int64_t tops(const PoolShape& shape) {
  return shape.planes * shape.top_h * shape.top_w;
}
std::int64_t bottoms(const PoolShape& shape) {
  return shape.planes * shape.h * shape.w;
}

}  // namespace

void max_pool_forward(cudaStream_t stream, const PoolShape& shape, const float* bottom, float* top,
                      std::int32_t* chosen) {
  const Sides sides(shape);
  each(stream, "max_pool_forward", tops(shape), [=] __device__(std::int64_t i) {
    const Place place = place_of(i, sides.top_h, sides.top_w);
    const float* plane = bottom + place.plane * sides.h * sides.w;
    const Window rows = sides.rows(place.y);
    const Window columns = sides.columns(place.x);
    int best_at = rows.begin * sides.w + columns.begin;
    float best = plane[best_at];
    for (int y = rows.begin; y < rows.end; ++y) {
      for (int x = columns.begin; x < columns.end; ++x) {
        const float value = plane[y * sides.w + x];
        if (value > best) {
          best = value;
          best_at = y * sides.w + x;
        }
      }
    }
    top[i] = best;
    chosen[i] = best_at;
  });
}

void max_pool_backward(cudaStream_t stream, const PoolShape& shape, const std::int32_t* chosen,
                       const float* top_gradient, float* bottom_gradient) {
  const Sides sides(shape);
  // Each place gathers from the windows that cover it, so no sum depends on timing.
  each(stream, "max_pool_backward", bottoms(shape), [=] __device__(std::int64_t i) {
    const Place place = place_of(i, sides.h, sides.w);
    const std::int64_t base = place.plane * sides.top_h * sides.top_w;
    const int own = place.y * sides.w + place.x;
    const Cover rows = sides.covering_rows(place.y);
    const Cover columns = sides.covering_columns(place.x);
    float sum = 0;
    for (int y = rows.begin; y < rows.end; ++y) {
      for (int x = columns.begin; x < columns.end; ++x) {
        const std::int64_t t = base + y * sides.top_w + x;
        if (chosen[t] == own) sum += top_gradient[t];
      }
    }
    bottom_gradient[i] = sum;
  });
}

void average_pool_forward(cudaStream_t stream, const PoolShape& shape, const float* bottom,
                          float* top) {
  const Sides sides(shape);
  constexpr std::int64_t kLargeWindow = 32;
  if (shape.kernel_h * shape.kernel_w >= kLargeWindow) {
    launch({stream, "average_pool_forward", tops(shape), blocks_for(tops(shape), kThreads / 32)},
           average_large_windows_kernel, tops(shape), sides, bottom, top);
    return;
  }
  each(stream, "average_pool_forward", tops(shape), [=] __device__(std::int64_t i) {
    const Place place = place_of(i, sides.top_h, sides.top_w);
    const float* plane = bottom + place.plane * sides.h * sides.w;
    const Window rows = sides.rows(place.y);
    const Window columns = sides.columns(place.x);
    float sum = 0;
    for (int y = rows.begin; y < rows.end; ++y) {
      for (int x = columns.begin; x < columns.end; ++x) sum += plane[y * sides.w + x];
    }
    top[i] = sum * (1 / static_cast<float>(rows.padded * columns.padded));
  });
}

void average_pool_backward(cudaStream_t stream, const PoolShape& shape, const float* top_gradient,
                           float* bottom_gradient) {
  const Sides sides(shape);
  each(stream, "average_pool_backward", bottoms(shape), [=] __device__(std::int64_t i) {
    const Place place = place_of(i, sides.h, sides.w);
    const std::int64_t base = place.plane * sides.top_h * sides.top_w;
    const Cover rows = sides.covering_rows(place.y);
    const Cover columns = sides.covering_columns(place.x);
    float sum = 0;
    for (int y = rows.begin; y < rows.end; ++y) {
      const int height = sides.rows(y).padded;
      for (int x = columns.begin; x < columns.end; ++x) {
        const float share = 1 / static_cast<float>(height * sides.columns(x).padded);
        sum += share * top_gradient[base + y * sides.top_w + x];
      }
    }
    bottom_gradient[i] = sum;
  });
}

void stochastic_pool_forward(cudaStream_t stream, const PoolShape& shape, const PoolDraw& draw,
                             const std::int64_t* clock, const float* bottom, float* top,
                             std::int32_t* chosen) {
  const Sides sides(shape);
  each(stream, "stochastic_pool_forward", tops(shape), [=] __device__(std::int64_t i) {
    const Place place = place_of(i, sides.top_h, sides.top_w);
    const float* plane = bottom + place.plane * sides.h * sides.w;
    const Window rows = sides.rows(place.y);
    const Window columns = sides.columns(place.x);
    float sum = 0;
    for (int y = rows.begin; y < rows.end; ++y) {
      for (int x = columns.begin; x < columns.end; ++x) sum += plane[y * sides.w + x];
    }
    const auto index = static_cast<std::uint64_t>(i);
    const std::uint64_t first = static_cast<std::uint64_t>(*clock) << 32U;
    const math::Philox random = math::Philox::at(draw.key, draw.stream, first | index / 4);
    const float until = (1 - math::unit_float(random.words[index % 4])) * sum;
    sum = 0;
    int at = -1;
    int last = 0;
    for (int y = rows.begin; y < rows.end; ++y) {
      for (int x = columns.begin; x < columns.end; ++x) {
        last = y * sides.w + x;
        sum += plane[last];
        if (at < 0 && sum >= until) at = last;
      }
    }
    if (at < 0) at = last;  // a NaN sum
    top[i] = plane[at];
    chosen[i] = at;
  });
}

void weighed_pool_forward(cudaStream_t stream, const PoolShape& shape, const float* bottom,
                          float* top) {
  const Sides sides(shape);
  each(stream, "weighed_pool_forward", tops(shape), [=] __device__(std::int64_t i) {
    const Place place = place_of(i, sides.top_h, sides.top_w);
    const float* plane = bottom + place.plane * sides.h * sides.w;
    const Window rows = sides.rows(place.y);
    const Window columns = sides.columns(place.x);
    float sum = FLT_MIN;  // no division by 0
    float squares = 0;
    for (int y = rows.begin; y < rows.end; ++y) {
      for (int x = columns.begin; x < columns.end; ++x) {
        const float value = plane[y * sides.w + x];
        sum += value;
        squares += value * value;
      }
    }
    top[i] = squares / sum;
  });
}

}  // namespace taut::cuda
