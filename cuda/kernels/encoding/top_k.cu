#include "cuda/kernels/encoding/top_k.hpp"

#include <limits>

#include "common/check.hpp"
#include "common/math/codec_elements.hpp"
#include "common/math/feedback_codec.hpp"
#include "cuda/kernels/encoding/findings.cuh"

namespace taut::cuda {
namespace {

constexpr unsigned kWarps = kThreads / 32;
constexpr std::uint32_t kPlaces = math::feedback::kPlaces;
static_assert(kPlaces % kThreads == 0, "a block of places ends with one of threads");
constexpr unsigned kCounts = math::kMagnitudeCounts;
constexpr unsigned kOwnCounts = kCounts / kThreads;

/// How many values have a larger magnitude than the smallest one kept, and how many have that one.
struct Numbers {
  std::uint32_t more;
  std::uint32_t equal;
};

struct Scratch {
  std::uint32_t prefix;  // digits of the smallest magnitude that is kept
  std::uint32_t more;    // number of values with larger ones
  std::uint32_t counts[kCounts];
  Numbers parts[kThreads];  // of the slice, in order, one for each block
  std::uint32_t findings[kThreads];
};

/// A slice and its parts, whose lengths are multiples of kThreads.
struct Slice {
  std::uint32_t count;
  std::uint32_t part;  // length
  std::uint32_t every;
  std::uint32_t kept;
};

/// Counts, by their next digit, the values that have the digits found so far.
__global__ void __launch_bounds__(kThreads)
    count_digits_kernel(Slice slice, const float* values, math::MagnitudeDigit digit,
                        Findings findings, Scratch* scratch) {
  using Counts = std::uint32_t[kCounts];
  TAUT_SHARED(Counts, counts);
  if (!all_finite(findings)) return;
  for (unsigned i = threadIdx.x; i < kCounts; i += kThreads) counts[i] = 0;
  __syncthreads();
  const std::uint32_t known = scratch->prefix >> digit.above;
  for (std::int64_t i = first_index(); i < slice.count; i += index_step()) {
    const std::uint32_t magnitude = math::magnitude_bits(values[i]);
    if (magnitude >> digit.above == known) {
      (void)atomicAdd(&counts[magnitude >> digit.shift & digit.mask], 1U);
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kCounts; i += kThreads) {
    if (counts[i] != 0) (void)atomicAdd(&scratch->counts[i], counts[i]);
  }
}

/// Finds the next digit of the smallest kept magnitude: one block, each thread with consecutive
/// digits. Resets the counts to 0.
__global__ void __launch_bounds__(kThreads)
    find_digit_kernel(std::uint32_t kept, std::uint32_t shift, Scratch* scratch) {
  using Sums = std::uint32_t[kThreads];
  TAUT_SHARED(Sums, sums);
  std::uint32_t* const own = scratch->counts + threadIdx.x * kOwnCounts;
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < kOwnCounts; ++i) sum += own[i];
  sums[threadIdx.x] = sum;
  std::uint32_t more = scratch->more;
  __syncthreads();
  for (unsigned thread = threadIdx.x + 1; thread < kThreads; ++thread) more += sums[thread];
  if (more < kept && more + sum >= kept) {
    unsigned digit = kOwnCounts - 1;
    while (more + own[digit] < kept) more += own[digit--];
    scratch->prefix |= (threadIdx.x * kOwnCounts + digit) << shift;
    scratch->more = more;
  }
  for (unsigned i = 0; i < kOwnCounts; ++i) own[i] = 0;
}

struct Found {
  bool is_more;
  bool is_equal;
};
__device__ Found compare(float value, std::uint32_t least) {
  const std::uint32_t magnitude = math::magnitude_bits(value);
  return {magnitude > least, magnitude == least};
}

/// One part of the slice for each block.
__global__ void __launch_bounds__(kThreads)
    count_parts_kernel(Slice slice, const float* values, Findings findings, Scratch* scratch) {
  if (!all_finite(findings)) return;
  const std::uint32_t least = scratch->prefix;
  const std::uint32_t begin = blockIdx.x * slice.part;
  Numbers numbers{0, 0};
  for (std::uint32_t i = begin + threadIdx.x; i < begin + slice.part && i < slice.count;
       i += kThreads) {
    const Found found = compare(values[i], least);
    numbers.more += found.is_more ? 1U : 0U;
    numbers.equal += found.is_equal ? 1U : 0U;
  }
  const std::uint32_t more = block_sum(numbers.more);
  const std::uint32_t equal = block_sum(numbers.equal);
  if (threadIdx.x == 0) scratch->parts[blockIdx.x] = {more, equal};
}

/// How many values precede a thread's, among those that a block compares together.
struct Places {
  Numbers before;
  Numbers all;
};
__device__ Places count_before(const Found& found) {
  using Warps = Numbers[kWarps];
  TAUT_SHARED(Warps, warps);
  const unsigned more = __ballot_sync(kWholeWarp, found.is_more ? 1 : 0);
  const unsigned equal = __ballot_sync(kWholeWarp, found.is_equal ? 1 : 0);
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned lower = (1U << lane) - 1;
  __syncthreads();  // waits for an earlier call's readers
  if (lane == 0) {
    warps[warp] = {static_cast<std::uint32_t>(__popc(more)),
                   static_cast<std::uint32_t>(__popc(equal))};
  }
  __syncthreads();
  Places places{{static_cast<std::uint32_t>(__popc(more & lower)),
                 static_cast<std::uint32_t>(__popc(equal & lower))},
                {0, 0}};
  for (unsigned i = 0; i < kWarps; ++i) {
    places.all.more += warps[i].more;
    places.all.equal += warps[i].equal;
    if (i < warp) places.before.more += warps[i].more;
    if (i < warp) places.before.equal += warps[i].equal;
  }
  return places;
}

/// The parts of the encoded bytes.
struct Payload {
  std::uint32_t* ends;    // of the blocks of places
  std::uint16_t* places;  // of values in their blocks
  std::uint16_t* values;  // two for each, as they are at multiples of 2

  __device__ void write(std::uint32_t at, std::uint32_t place, float value) const {
    const std::uint32_t bits = math::float_bits(value);
    places[at] = static_cast<std::uint16_t>(place % kPlaces);
    values[2 * at] = static_cast<std::uint16_t>(bits & 0xffffU);
    values[2 * at + 1] = static_cast<std::uint16_t>(bits >> 16U);
  }
  /// Writes how many values precede `end`, if a block of places ends there.
  __device__ void write_end(std::uint32_t end, std::uint32_t count, std::uint32_t written) const {
    if (end % kPlaces != 0 && end < count) return;
    ends[(end - 1) / kPlaces] = written;
  }
};

/// The numbers before a block's part.
__device__ Numbers parts_before(const Numbers* parts) {
  const bool is_before = threadIdx.x < blockIdx.x;
  const std::uint32_t more = is_before ? parts[threadIdx.x].more : 0;
  const std::uint32_t equal = is_before ? parts[threadIdx.x].equal : 0;
  const std::uint32_t all_more = block_sum_for_all(more);
  return {all_more, block_sum_for_all(equal)};
}

/// One part of the slice for each block.
__global__ void __launch_bounds__(kThreads)
    write_top_k_kernel(Slice slice, Findings findings, const Scratch* scratch, float* residual,
                       Payload payload) {
  if (!all_finite(findings)) return;
  const std::uint32_t least = scratch->prefix;
  const std::uint32_t equal_kept = slice.kept - scratch->more;
  Numbers before = parts_before(scratch->parts);
  const std::uint32_t begin = blockIdx.x * slice.part;
  for (std::uint32_t first = begin; first < begin + slice.part && first < slice.count;
       first += kThreads) {
    const std::uint32_t i = first + threadIdx.x;
    const float value = i < slice.count ? residual[i] : 0.0F;
    Found found = compare(value, least);
    if (i >= slice.count) found = {false, false};
    const Places places = count_before(found);
    const std::uint32_t equal = before.equal + places.before.equal;
    if (found.is_more || (found.is_equal && equal < equal_kept)) {
      const std::uint32_t kept_equal = equal < equal_kept ? equal : equal_kept;
      payload.write(before.more + places.before.more + kept_equal, i, value);
      residual[i] = 0;
    }
    before.more += places.all.more;
    before.equal += places.all.equal;
    if (threadIdx.x == 0) {
      const std::uint32_t kept_equal = before.equal < equal_kept ? before.equal : equal_kept;
      payload.write_end(first + kThreads, slice.count, before.more + kept_equal);
    }
  }
}

/// As above, if a sum is not finite: one NaN for each `every` values.
__global__ void __launch_bounds__(kThreads)
    write_no_numbers_kernel(Slice slice, Findings findings, Payload payload) {
  if (all_finite(findings)) return;
  for (std::int64_t i = first_index(); i < slice.kept; i += index_step()) {
    const auto at = static_cast<std::uint32_t>(i);
    payload.write(at, at * slice.every, math::no_number());
  }
  const std::uint32_t blocks = (slice.count + kPlaces - 1) / kPlaces;
  for (std::int64_t i = first_index(); i < blocks; i += index_step()) {
    const std::int64_t block_end = (i + 1) * kPlaces;
    const std::int64_t end = block_end < slice.count ? block_end : slice.count;
    payload.ends[i] = static_cast<std::uint32_t>((end + slice.every - 1) / slice.every);
  }
}

__global__ void __launch_bounds__(kThreads) begin_top_k_kernel(Scratch* scratch) {
  for (unsigned i = threadIdx.x; i < kCounts; i += kThreads) scratch->counts[i] = 0;
  if (threadIdx.x != 0) return;
  scratch->prefix = 0;
  scratch->more = 0;
}

}  // namespace

void encode_top_k(cudaStream_t stream, std::uint32_t every, const EncodedSlice& slice,
                  void* scratch) {
  TAUT_CHECK(slice.count <= std::numeric_limits<std::int32_t>::max(), "a slice of an update");
  const auto count = static_cast<std::uint32_t>(slice.count);
  const math::feedback::TopKLayout layout(count, every);
  const std::uint32_t stretch = kThreads * kThreads;  // with parts of kThreads values
  const std::uint32_t part = (count + stretch - 1) / stretch * kThreads;
  const Slice whole{count, part, every, static_cast<std::uint32_t>(layout.kept)};
  auto* const own = static_cast<Scratch*>(scratch);
  const Payload payload{reinterpret_cast<std::uint32_t*>(slice.out),
                        reinterpret_cast<std::uint16_t*>(slice.out + layout.places),
                        reinterpret_cast<std::uint16_t*>(slice.out + layout.values)};
  const Findings findings = add_up(stream, slice, own->findings);
  launch({stream, "begin_top_k", kCounts}, begin_top_k_kernel, own);
  for (const math::MagnitudeDigit& digit : math::kMagnitudeDigits) {
    launch({stream, "count_digits", slice.count, blocks_for(slice.count, 16 * kThreads)},
           count_digits_kernel, whole, slice.state, digit, findings, own);
    launch({stream, "find_digit", kCounts}, find_digit_kernel, whole.kept, digit.shift, own);
  }
  const unsigned parts = (count + part - 1) / part;
  launch({stream, "count_parts", slice.count, parts}, count_parts_kernel, whole, slice.state,
         findings, own);
  launch({stream, "write_top_k", slice.count, parts}, write_top_k_kernel, whole, findings, own,
         slice.state, payload);
  launch({stream, "write_no_numbers", slice.count, blocks_for(whole.kept)}, write_no_numbers_kernel,
         whole, findings, payload);
}

std::size_t top_k_scratch() {
  return sizeof(Scratch);
}

}  // namespace taut::cuda
