#pragma once

#include <cstdint>

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/place_of.cuh"

// Element by element, with numbers for each index of a view's length.
namespace taut::cuda {

/// The indices along the length of four neighbours.
struct PlacesOfFour {
  PlaceOf place;        // of all four
  bool are_neighbours;  // each has its own index, one after another
};

/// out[i] = f(k, in...[i]), with k the index of element i along the length.
template <int kInputs, class F>
__global__ void __launch_bounds__(kThreads)
    along_kernel(std::int64_t count, PlaceOf place, Inputs<kInputs> in, float* out, F f) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    if constexpr (kInputs == 1) {
      out[i] = f(place(i), in.at[0][i]);
    } else {
      out[i] = f(place(i), in.at[0][i], in.at[1][i]);
    }
  }
}

/// As along_kernel, with float4.
template <int kInputs, class F>
__global__ void __launch_bounds__(kThreads)
    along_fours_kernel(std::int64_t fours, PlacesOfFour four, Inputs<kInputs> in, float* out, F f) {
  for (std::int64_t i = first_index(); i < fours; i += index_step()) {
    float4 x[kInputs];
#pragma unroll
    for (int n = 0; n < kInputs; ++n) x[n] = reinterpret_cast<const float4*>(in.at[n])[i];
    const std::int64_t k = four.place(i) * (four.are_neighbours ? 4 : 1);
    const std::int64_t step = four.are_neighbours ? 1 : 0;
    float4 y;
    if constexpr (kInputs == 1) {
      y = make_float4(f(k, x[0].x), f(k + step, x[0].y), f(k + 2 * step, x[0].z),
                      f(k + 3 * step, x[0].w));
    } else {
      y = make_float4(f(k, x[0].x, x[1].x), f(k + step, x[0].y, x[1].y),
                      f(k + 2 * step, x[0].z, x[1].z), f(k + 3 * step, x[0].w, x[1].w));
    }
    reinterpret_cast<float4*>(out)[i] = y;
  }
}

/// f(k, in...[i]) for each element i of the view; `out` may be one of the inputs.
template <int kInputs, class F>
void map_along(cudaStream_t stream, const char* name, const AxisView& view, Inputs<kInputs> in,
               float* out, const F& f) {
  const std::int64_t count = view.count();
  if (count <= 0) return;
  const bool are_neighbours = view.inner == 1 && view.length > 1;
  bool is_vector = is_aligned(out) && (are_neighbours ? view.length : view.inner) % 4 == 0;
  for (const float* input : in.at) is_vector = is_vector && is_aligned(input);
  if (!is_vector) {
    launch({stream, name, count, blocks_for(count)}, along_kernel<kInputs, F>, count, PlaceOf(view),
           in, out, f);
    return;
  }
  AxisView of_fours = view;
  (are_neighbours ? of_fours.length : of_fours.inner) /= 4;
  launch({stream, name, count, blocks_for(count / 4)}, along_fours_kernel<kInputs, F>, count / 4,
         PlacesOfFour{PlaceOf(of_fours), are_neighbours}, in, out, f);
}

}  // namespace taut::cuda
