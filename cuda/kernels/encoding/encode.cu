#include "cuda/kernels/encoding/encode.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "common/math/codec_elements.hpp"
#include "common/math/philox.hpp"
#include "cuda/kernels/encoding/findings.cuh"
#include "cuda/kernels/encoding/low_rank.hpp"
#include "cuda/kernels/encoding/top_k.hpp"
#include "cuda/kernels/launch.cuh"

namespace taut::cuda {
namespace {

// A block of threads encodes a block of values at a time.
static_assert(kThreads == math::kCodecBlock);
constexpr std::int64_t kInt8Bytes = sizeof(float) + math::kCodecBlock;
constexpr std::int64_t kMeansBytes = 2 * sizeof(float);
constexpr std::int64_t kOneBitBytes = kMeansBytes + math::kCodecBlock / 8;
constexpr unsigned kLanes = math::kMeanLanes;

/// The largest value of a block's threads; returned to every thread.
__device__ std::uint32_t block_largest(std::uint32_t value) {
  constexpr int kWarps = kThreads / 32;
  using Parts = std::uint32_t[kWarps];
  TAUT_SHARED(Parts, parts);
  __syncthreads();  // waits for an earlier call's readers
  for (int offset = 16; offset > 0; offset /= 2) {
    const std::uint32_t other = __shfl_xor_sync(kWholeWarp, value, offset);
    value = other > value ? other : value;
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  for (const std::uint32_t part : parts) value = part > value ? part : value;
  return value;
}

/// A call of Philox gives the draws of eight values, and each of their threads makes it: that costs
/// less than waiting for another thread's.
__device__ std::uint32_t drawn(const math::Draw& draw, std::int64_t block) {
  const math::Int8Draw own = math::int8_draw(threadIdx.x);
  const std::uint64_t counter =
      draw.first + static_cast<std::uint64_t>(block) * (kThreads / 8) + own.call;
  const math::Philox words = math::Philox::at(draw.key, draw.stream, counter);
  return words.words[own.word] >> own.shift & 0xffffU;
}

__global__ void __launch_bounds__(kThreads)
    int8_kernel(std::int64_t count, const float* values, math::Draw draw, std::byte* out) {
  for (std::int64_t block = blockIdx.x; block * kThreads < count; block += gridDim.x) {
    const std::int64_t i = block * kThreads + threadIdx.x;
    const float value = i < count ? values[i] : 0.0F;
    const math::Int8Steps steps =
        math::int8_steps(block_largest(math::float_bits(value) & 0x7fffffffU));
    std::byte* const to = out + block * kInt8Bytes;
    if (threadIdx.x == 0) *reinterpret_cast<float*>(to) = steps.step;
    if (i >= count) continue;
    std::int8_t rounded = 0;
    if (steps.is_drawn) rounded = math::round_by_chance(value * steps.inverse, drawn(draw, block));
    reinterpret_cast<std::int8_t*>(to + sizeof(float))[threadIdx.x] = rounded;
  }
}

/// The sums of a block of ONE_BIT.
struct Lanes {
  double below[kLanes];
  double rest[kLanes];
  std::int32_t negative[kLanes];
};

__device__ void sum_lane(const float* sums, unsigned lane, Lanes& lanes) {
  double below = 0;
  double rest = 0;
  std::int32_t negative = 0;
  for (unsigned i = lane; i < kThreads; i += kLanes) {
    const float value = sums[i];
    below += value < 0 ? value : 0.0F;
    rest += value < 0 ? 0.0F : value;
    negative += value < 0 ? 1 : 0;
  }
  lanes.below[lane] = below;
  lanes.rest[lane] = rest;
  lanes.negative[lane] = negative;
}

/// count  of the values from the block's start on; zeros fill the block
__device__ math::OneBitMeans means_of(const Lanes& lanes, std::int64_t count) {
  double below = 0;
  double rest = 0;
  std::int32_t negative = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    below += lanes.below[lane];
    rest += lanes.rest[lane];
    negative += lanes.negative[lane];
  }
  const std::int64_t own = count < kThreads ? count : kThreads;
  return math::one_bit_means(below, rest, negative, static_cast<std::int32_t>(own));
}

__global__ void __launch_bounds__(kThreads)
    one_bit_kernel(std::int64_t count, const float* values, Findings findings, float* residual,
                   std::byte* out) {
  using Sums = float[kThreads];
  TAUT_SHARED(Sums, sums);
  TAUT_SHARED(Lanes, lanes);
  TAUT_SHARED(math::OneBitMeans, means);
  const bool is_finite = all_finite(findings);
  for (std::int64_t block = blockIdx.x; block * kThreads < count; block += gridDim.x) {
    const std::int64_t i = block * kThreads + threadIdx.x;
    const float sum = is_finite && i < count ? residual[i] + values[i] : 0.0F;
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < kLanes) sum_lane(sums, threadIdx.x, lanes);
    __syncthreads();
    if (threadIdx.x == 0) {
      means = math::OneBitMeans{math::no_number(), math::no_number()};
      if (is_finite) means = means_of(lanes, count - block * kThreads);
    }
    __syncthreads();
    const unsigned signs = __ballot_sync(kWholeWarp, sum < 0 ? 0 : 1);
    std::byte* const to = out + block * kOneBitBytes;
    if (threadIdx.x == 0) {
      reinterpret_cast<float*>(to)[0] = means.below;
      reinterpret_cast<float*>(to)[1] = means.rest;
    }
    if (i < count && threadIdx.x % 8 == 0) {
      const unsigned eight = is_finite ? signs >> threadIdx.x % 32 & 0xffU : 0U;
      to[kMeansBytes + threadIdx.x / 8] = static_cast<std::byte>(eight);
    }
    if (is_finite && i < count) residual[i] = sum - math::read_as(means, sum);
  }
}

__global__ void __launch_bounds__(kThreads)
    random_k_kernel(std::int64_t count, std::int64_t every, std::uint64_t key, Findings findings,
                    float* residual, std::byte* out) {
  const bool is_finite = all_finite(findings);
  if (first_index() == 0) *reinterpret_cast<std::uint64_t*>(out) = key;
  auto* const kept = reinterpret_cast<float*>(out + sizeof key);
  const std::int64_t stretches = (count + every - 1) / every;
  for (std::int64_t i = first_index(); i < stretches; i += index_step()) {
    const math::Philox words = math::Philox::at(key, 0, static_cast<std::uint64_t>(i / 4));
    const std::int64_t begin = i * every;
    const std::int64_t length = every < count - begin ? every : count - begin;
    const std::uint64_t place = math::place_in_stretch(
        static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(length), words.words[i % 4]);
    kept[i] = is_finite ? residual[place] : math::no_number();
    if (is_finite) residual[place] = 0;
  }
}

void encode_random_k(cudaStream_t stream, std::uint32_t every, const math::Draw& draw,
                     const EncodedSlice& slice, void* scratch) {
  const Findings findings = add_up(stream, slice, scratch);
  const math::Philox words = math::Philox::at(draw.key, draw.stream, draw.first);
  const std::uint64_t key = std::uint64_t{words.words[1]} << 32U | words.words[0];
  const std::int64_t stretches = (slice.count + every - 1) / every;
  launch({stream, "encode_random_k", slice.count, blocks_for(stretches)}, random_k_kernel,
         slice.count, std::int64_t{every}, key, findings, slice.state, slice.out);
}

}  // namespace

void encode(cudaStream_t stream, const math::Encoding& encoding, const math::Draw& draw,
            const EncodedSlice& slice, void* scratch) {
  TAUT_CHECK(encoding.codec != math::Codec::kFloat32 && slice.count > 0,
             "values, and an encoding that is not theirs");
  const float* const values = slice.values;
  auto* const halves = reinterpret_cast<std::uint16_t*>(slice.out);
  if (encoding.codec == math::Codec::kFloat16) {
    each(stream, "encode_float16", slice.count,
         [=] __device__(std::int64_t i) { halves[i] = math::to_float16(values[i]); });
  } else if (encoding.codec == math::Codec::kBfloat16) {
    each(stream, "encode_bfloat16", slice.count,
         [=] __device__(std::int64_t i) { halves[i] = math::to_bfloat16(values[i]); });
  } else if (encoding.codec == math::Codec::kInt8) {
    launch({stream, "encode_int8", slice.count, blocks_for(slice.count)}, int8_kernel, slice.count,
           values, draw, slice.out);
  } else if (encoding.codec == math::Codec::kOneBit) {
    const Findings findings = look_for_faults(stream, slice, scratch);
    launch({stream, "encode_one_bit", slice.count, blocks_for(slice.count)}, one_bit_kernel,
           slice.count, values, findings, slice.state, slice.out);
  } else if (encoding.codec == math::Codec::kRandomK) {
    encode_random_k(stream, encoding.every, draw, slice, scratch);
  } else if (encoding.codec == math::Codec::kTopK) {
    encode_top_k(stream, encoding.every, slice, scratch);
  } else {
    TAUT_CHECK(encoding.codec == math::Codec::kLowRank, "an encoding that has a kernel");
    encode_low_rank(stream, encoding, draw, slice, scratch);
  }
}

std::size_t encode_scratch(const math::Encoding& encoding, std::int64_t count) {
  if (encoding.codec == math::Codec::kTopK) return top_k_scratch();
  if (encoding.codec == math::Codec::kLowRank) return low_rank_scratch(encoding, count);
  return kFindingsBytes;
}

}  // namespace taut::cuda
