#include "cuda/kernels/sequence.hpp"

#include <algorithm>
#include <cmath>

#include "tests/gpu/kernels/array.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// Row numbers of which many are the same.
std::vector<float> numbers_below(std::int64_t rows, std::int64_t count, unsigned seed) {
  auto numbers = random_floats(count, seed);
  for (float& number : numbers) number = std::floor((number + 1) / 2 * static_cast<float>(rows));
  for (float& number : numbers) number = std::min(number, static_cast<float>(rows - 1));
  return numbers;
}

}  // namespace

TEST_CASE("rows named several times are summed in their places' order, wide ones too",
          "[kernels]") {
  struct Sizes {
    std::int64_t count;
    std::int64_t inputs;
  };
  for (const std::int64_t outputs : {1, 255, 256, 300, 520}) {
    // Few places, more than rows, several rows for a block, more places of a row than it lists.
    for (const auto& [count, inputs] : {Sizes{1, 13}, {40, 13}, {600, 13}, {600, 300}, {1700, 2}}) {
      if (count > 1000 && outputs > 1) continue;
      on_each_schedule([&, count = count, inputs = inputs] {
        const TestStream stream;
        const cuda::EmbedShape shape{.count = count, .inputs = inputs, .outputs = outputs};
        auto numbers = numbers_below(inputs, count, 1);
        if (count > 5) numbers[5] = -1;  // names no row
        const auto slopes = random_floats(count * outputs, 2);
        const Array<float> bottom(numbers);
        const Array<float> top_gradient(slopes);
        const Array<float> gradient(inputs * outputs);
        cuda::embed_backward(stream, shape, bottom.at(), top_gradient.at(), gradient.at());
        std::vector<float> expected(place(inputs * outputs));
        for (std::int64_t n = 0; n < count; ++n) {
          if (numbers[place(n)] < 0) continue;
          const auto row = static_cast<std::int64_t>(numbers[place(n)]);
          for (std::int64_t k = 0; k < outputs; ++k) {
            expected[place(row * outputs + k)] += slopes[place(n * outputs + k)];
          }
        }
        CHECK(gradient.values(stream) == expected);
      });
    }
  }
}

TEST_CASE("a number that names no row gives zeros and is written down", "[kernels]") {
  on_each_schedule([] {
    const TestStream stream;
    const cuda::EmbedShape shape{.count = 4, .inputs = 3, .outputs = 2};
    const Array<float> bottom(std::vector<float>{0, 2, 3, 1});
    const Array<float> weights(std::vector<float>{1, 2, 3, 4, 5, 6});
    const Array<float> top(8);
    const Array<cuda::Fault> fault(std::vector<cuda::Fault>(1));
    cuda::embed_forward(stream, shape, bottom.at(), weights.at(), nullptr, top.at(), fault.at());
    CHECK(top.values(stream) == std::vector<float>{1, 2, 5, 6, 0, 0, 3, 4});
    const cuda::Fault found = fault.values(stream)[0];
    CHECK(found.kind == cuda::Fault::kRow);
    CHECK(found.position() == 2);
    CHECK(found.value() == 3);
    CHECK(found.limit == 3);
  });
}

TEST_CASE("attention weighs unmasked earlier steps, over long sequences", "[kernels]") {
  for (const std::int64_t steps : {1, 5, 32, 33, 70}) {
    for (const bool causal : {false, true}) {
      on_each_schedule([&] {
        const TestStream stream;
        const cuda::AttentionShape shape{
            .steps = steps, .streams = 3, .heads = 2, .depth = 4, .causal = causal};
        const std::int64_t count = shape.pairs() * steps * steps;
        const auto x = random_floats(count, 1);
        const auto dy = random_floats(count, 2);
        // Every second step of stream 1 is masked, and every step of stream 2.
        std::vector<float> masks(place(steps * 3), 1.0F);
        for (std::int64_t t = 0; t < steps; ++t) {
          if (t % 2 == 1) masks[place(t * 3 + 1)] = 0;
          masks[place(t * 3 + 2)] = 0;
        }
        const Array<float> mask(masks);
        const Array<float> weights(x);
        const Array<float> gradients(dy);
        cuda::attention_softmax(stream, shape, mask.at(), weights.at());
        cuda::attention_softmax_backward(stream, shape, weights.at(), gradients.at());
        const auto w = weights.values(stream);
        const auto g = gradients.values(stream);
        for (std::int64_t row = 0; row < shape.pairs() * steps; ++row) {
          const std::int64_t t = row % steps;
          const std::int64_t n = row / steps / 2;
          std::vector<double> expected(place(steps));
          double sum = 0;
          for (std::int64_t i = 0; i < (causal ? t + 1 : steps); ++i) {
            if (masks[place(i * 3 + n)] == 0) continue;
            expected[place(i)] = std::exp(double{x[place(row * steps + i)]});
            sum += expected[place(i)];
          }
          double along = 0;
          for (std::int64_t i = 0; i < steps; ++i) {
            if (sum > 0) expected[place(i)] /= sum;
            along += expected[place(i)] * dy[place(row * steps + i)];
          }
          for (std::int64_t i = 0; i < steps; ++i) {
            const std::size_t at = place(row * steps + i);
            CHECK(std::abs(w[at] - expected[place(i)]) < 1e-5);
            CHECK(std::abs(g[at] - expected[place(i)] * (dy[at] - along)) < 1e-5);
          }
        }
      });
    }
  }
}

TEST_CASE("unpacking restores packed heads", "[kernels]") {
  on_each_schedule([] {
    const TestStream stream;
    const cuda::AttentionShape shape{.steps = 5, .streams = 3, .heads = 2, .depth = 4};
    const auto values = random_floats(5 * 3 * 3 * 8, 1);
    const Array<float> from(values);
    const Array<float> packed(static_cast<std::int64_t>(values.size()));
    const Array<float> back(static_cast<std::int64_t>(values.size()));
    cuda::pack_heads(stream, shape, 3, from.at(), packed.at());
    cuda::unpack_heads(stream, shape, 3, packed.at(), back.at());
    const auto got = packed.values(stream);
    // Part 1, stream 2, head 1, step 4, depth 3.
    CHECK(got[place((((1 * 3 + 2) * 2 + 1) * 5 + 4) * 4 + 3)] ==
          values[place((4 * 3 + 2) * 24 + 1 * 8 + 1 * 4 + 3)]);
    CHECK(back.values(stream) == values);
  });
}

TEST_CASE("a step of an LSTM and its way back agree with central differences", "[kernels]") {
  const cuda::StepShape shape{.streams = 2, .hidden = 3};
  const auto sums = random_floats(2 * 12, 1);
  const auto before = random_floats(6, 2);
  const std::vector<float> conts{1, 0};
  // What a top's gradient of ones sees: the sum of h.
  const auto sum_of_h = [&](const std::vector<float>& gates_in) {
    const TestStream stream;
    const Array<float> gates(gates_in);
    const Array<float> cont(conts);
    const Array<float> c_before(before);
    const Array<float> c(6);
    const Array<float> tanh_c(6);
    const Array<float> h(6);
    cuda::lstm_step(stream, shape, gates.at(), cont.at(), c_before.at(), c.at(), tanh_c.at(),
                    h.at(), nullptr, nullptr);
    double sum = 0;
    for (const float value : h.values(stream)) sum += value;
    return sum;
  };
  on_each_schedule([&] {
    const TestStream stream;
    const Array<float> gates(sums);
    const Array<float> cont(conts);
    const Array<float> c_before(before);
    const Array<float> c(6);
    const Array<float> tanh_c(6);
    const Array<float> h(6);
    const Array<float> above(std::vector<float>(6, 1.0F));
    const Array<float> dh(std::vector<float>(6, 0.0F));
    const Array<float> dc(std::vector<float>(6, 0.0F));
    cuda::lstm_step(stream, shape, gates.at(), cont.at(), c_before.at(), c.at(), tanh_c.at(),
                    h.at(), nullptr, nullptr);
    cuda::lstm_step_backward(stream, shape, gates.at(), cont.at(), c_before.at(), tanh_c.at(),
                             above.at(), dh.at(), dc.at());
    const auto got = gates.values(stream);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      auto up = sums;
      auto down = sums;
      up[i] += 0.01F;
      down[i] -= 0.01F;
      CHECK(std::abs(got[i] - (sum_of_h(up) - sum_of_h(down)) / 0.02) < 1e-3);
    }
  });
}
