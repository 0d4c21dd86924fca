// How often kernels pass over a blob, layer by layer and at once: what they read and write.
#include "tests/twin/races/passes.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>

#include "common/math/activation.hpp"
#include "common/math/update_rules.hpp"
#include "cuda/kernels/batch_norm.hpp"
#include "cuda/kernels/reduce.hpp"
#include "cuda/kernels/update.hpp"
#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"
#include "tests/twin/counts.hpp"

using namespace taut;
using namespace taut::test;
using cuda::AxisView;

namespace {

constexpr AxisView kView{.outer = 2, .length = 4, .inner = 64};
constexpr float kEpsilon = 1e-5F;

/// Blobs one after another, of which each access counts, and numbers of channels, which are few.
struct Blobs {
  Blobs() : all(random_floats(kMaxBlobs * kView.count(), 1)), numbers(random_floats(12 * 4, 2)) {}
  [[nodiscard]] float* at(std::int64_t blob) const { return all.at() + blob * kView.count(); }
  [[nodiscard]] float* channels(std::int64_t i) const { return numbers.at() + i * kView.length; }

  static constexpr std::int64_t kMaxBlobs = 8;
  TestStream stream;
  Array<float> all;
  Array<float> numbers;
};

struct Cost {
  double passes = 0;  // reads and writes of a whole blob
  std::uint64_t launches = 0;
};

Cost cost_of(const Blobs& blobs, const std::string& name, const std::function<void()>& work) {
  blobs.stream.finish();
  twin::watch({reinterpret_cast<const std::byte*>(blobs.all.at()),
               static_cast<std::size_t>(Blobs::kMaxBlobs * kView.count()) * sizeof(float)});
  const std::uint64_t before = twin::work_counts().kernels;
  work();
  blobs.stream.finish();
  const auto blob_bytes = static_cast<double>(kView.count()) * sizeof(float);
  const Cost cost{static_cast<double>(twin::watched_bytes()) / blob_bytes,
                  twin::work_counts().kernels - before};
  twin::watch({});
  fmt::print("{:<55} {:>5.1f} passes, {} launches\n", name, cost.passes, cost.launches);
  return cost;
}

}  // namespace

// In both the statistics read, with each element, the value that distances are taken from: a pass
// that comes from a cache.
TEST_CASE("a batch norm, its factors and its ReLU at once pass over their blob 9 times, not 20",
          "[twin][passes]") {
  const Blobs blobs;
  const math::Activation relu = math::Relu{0};
  cudaStream_t const stream = blobs.stream;
  // x, normalised, scaled with the ReLU in place; the gradients of the last one and of x.
  float* const x = blobs.at(0);
  float* const normalised = blobs.at(1);
  float* const y = blobs.at(2);
  float* const dy = blobs.at(3);
  float* const dx = blobs.at(4);
  const auto number = [&](std::int64_t i) { return blobs.channels(i); };
  const std::int64_t count = kView.count();

  const Cost one_by_one = cost_of(blobs, "BatchNorm, Scale and ReLU one after another", [&] {
    cuda::batch_norm_statistics(stream, kView, x, kEpsilon, number(0), number(1), number(2),
                                number(3), nullptr);
    cuda::batch_norm_normalize(stream, kView, x, number(2), number(3), normalised);
    cuda::affine_forward(stream, kView, normalised, number(4), number(5), y);
    cuda::activation_forward(stream, relu, y, y, count);
    cuda::activation_backward(stream, relu, y, dy, dy, count);
    cuda::affine_parameter_gradients(stream, kView, normalised, dy, number(6), number(7), nullptr);
    cuda::affine_forward(stream, kView, dy, number(4), nullptr, dx);
    cuda::batch_norm_slopes(stream, kView, normalised, dx, number(8), number(9), nullptr);
    cuda::batch_norm_backward(stream, kView, normalised, dx, number(3), number(8), number(9), dx);
  });
  const Cost at_once = cost_of(blobs, "BatchNorm, Scale and ReLU at once", [&] {
    cuda::batch_norm_statistics(stream, kView, x, kEpsilon, number(0), number(1), number(2),
                                number(3), nullptr);
    const cuda::ScaledBatchNorm numbers{.shift = number(2),
                                        .factor = number(3),
                                        .factors = number(4),
                                        .summands = number(5),
                                        .relu = true};
    cuda::scaled_batch_norm_forward(stream, kView, numbers, x, y);
    cuda::scaled_batch_norm_sums(stream, kView, numbers, x, dy, number(6), number(7), number(8),
                                 number(9), nullptr);
    cuda::scaled_batch_norm_backward(stream, kView, numbers, x, dy, number(8), number(9), dx);
  });
  CHECK(one_by_one.passes == Approx(20).epsilon(0.01));
  CHECK(one_by_one.launches == 9);
  CHECK(at_once.passes == Approx(9).epsilon(0.01));
  CHECK(at_once.launches == 4);
}

TEST_CASE("a sum and its ReLU at once pass over their blobs 7 times, not 12", "[twin][passes]") {
  const Blobs blobs;
  const math::Activation relu = math::Relu{0};
  cudaStream_t const stream = blobs.stream;
  const std::int64_t count = kView.count();
  const cuda::Scaled terms[]{{blobs.at(0), 1.0F}, {blobs.at(1), 1.0F}};
  const cuda::Scaled gradient[]{{blobs.at(3), 1.0F}};
  const Cost one_by_one = cost_of(blobs, "Eltwise and ReLU one after another", [&] {
    cuda::weighted_sum(stream, terms, blobs.at(2), count);
    cuda::activation_forward(stream, relu, blobs.at(2), blobs.at(2), count);
    cuda::activation_backward(stream, relu, blobs.at(2), blobs.at(3), blobs.at(3), count);
    cuda::weighted_sum(stream, gradient, blobs.at(4), count);
    cuda::weighted_sum(stream, gradient, blobs.at(5), count);
  });
  const Cost at_once = cost_of(blobs, "Eltwise and ReLU at once", [&] {
    cuda::weighted_sum(stream, terms, blobs.at(2), count, true);
    cuda::rectified_sum_backward(stream, blobs.at(2), blobs.at(3), {blobs.at(4), 1.0F},
                                 {blobs.at(5), 1.0F}, count);
  });
  CHECK(one_by_one.passes == Approx(12));
  CHECK(one_by_one.launches == 5);
  CHECK(at_once.passes == Approx(7));
  CHECK(at_once.launches == 2);
}

TEST_CASE("LAMB passes over its arrays 12 times", "[twin][passes]") {
  const Blobs blobs;
  const std::int64_t count = kView.count();
  const cuda::Scaled gradient[]{{blobs.at(0), 1.0F}};
  const Array<char> scratch(
      static_cast<std::int64_t>(cuda::update_scratch(math::RuleKind::kLamb, 1, count)));
  math::UpdateStep step;
  step.momentum2 = 0.99F;
  const Cost cost = cost_of(blobs, "LAMB", [&] {
    cuda::apply_update(
        blobs.stream, math::RuleKind::kLamb, step, gradient, 1.0F,
        {.values = blobs.at(1), .first = blobs.at(2), .second = blobs.at(3), .count = count},
        scratch.at());
  });
  CHECK(cost.passes == Approx(12));
}

TEST_CASE("a bias and its ReLU at once pass over their blob 2 times, not 4", "[twin][passes]") {
  const Blobs blobs;
  const math::Activation relu = math::Relu{0};
  const Cost one_by_one = cost_of(blobs, "a bias and a ReLU one after another", [&] {
    cuda::affine_forward(blobs.stream, kView, blobs.at(0), nullptr, blobs.channels(0), blobs.at(0));
    cuda::activation_forward(blobs.stream, relu, blobs.at(0), blobs.at(0), kView.count());
  });
  const Cost at_once = cost_of(blobs, "a bias and a ReLU at once", [&] {
    cuda::affine_forward(blobs.stream, kView, blobs.at(0), nullptr, blobs.channels(0), blobs.at(0),
                         true);
  });
  CHECK(one_by_one.passes == Approx(4));
  CHECK(at_once.passes == Approx(2));
}
