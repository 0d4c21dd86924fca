#include <string>
#include <vector>

#include "tests/gpu/compare.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

namespace {

struct Linear {
  std::string definition;
  Extents bottom;
};

const std::vector<Linear>& linear() {
  static const std::vector<Linear> layers{
      {"type: 'Convolution' convolution_param { num_output: 32 kernel_size: 3 pad: 1 }",
       {8, 16, 20, 20}},
      {"type: 'Convolution' convolution_param { num_output: 20 kernel_size: 5 }", {4, 1, 28, 28}},
      {"type: 'InnerProduct' inner_product_param { num_output: 96 }", {32, 200}}};
  return layers;
}

std::vector<Values> run(std::shared_ptr<Backend> backend, const Linear& layer,
                        float gradients = 1) {
  LayerBench bench(layer.definition, {layer.bottom}, {.backend = std::move(backend)});
  fill_randomly(bench, 11, 0);
  for (float& value : bench.top_gradients[0]) value *= gradients;
  bench.forward();
  bench.backward();
  return results_of(bench, true);
}

/// Sets how the device computes, and back again.
class With {
 public:
  explicit With(const MathOptions& options) { cuda_device()->set_math(options); }
  ~With() { cuda_device()->set_math({}); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;
};

void check_against_cpu(double tolerance, float gradients = 1) {
  for (const Linear& layer : linear()) {
    INFO(layer.definition);
    const auto expected = run(cpu(), layer, gradients);
    const auto actual = run(cuda_device(), layer, gradients);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result " << i);
      CHECK(relative_error(actual[i], expected[i]) <= tolerance);
    }
  }
}

}  // namespace

TEST_CASE("TF32 keeps to 11 bits of each factor", "[gpu]") {
  const With with({.precision = Precision::kTf32});
  check_against_cpu(2e-3);
}

TEST_CASE("bfloat16 keeps to 8 bits of each factor, and results are float32", "[gpu]") {
  const With with({.precision = Precision::kBfloat16});
  check_against_cpu(2e-2);
}

TEST_CASE("float16 keeps to 11 bits of each factor", "[gpu]") {
  const With with({.precision = Precision::kFloat16});
  check_against_cpu(3e-3);
}

TEST_CASE("gradients too small for float16 are scaled, and are correct", "[gpu]") {
  const With with({.precision = Precision::kFloat16});
  check_against_cpu(3e-3, 1e-9F);
  check_against_cpu(3e-3, 1e6F);
}

TEST_CASE("a gradient in 16 bits is converted again if other work came between", "[gpu]") {
  const With with({.precision = Precision::kFloat16, .deterministic = true});
  const auto device = cuda_device();
  const auto stream = device->make_stream();
  constexpr std::size_t kRows = 8;
  constexpr std::size_t kColumns = 64;
  const InnerProductSpec spec{.bottom = {kRows, kColumns},
                              .rows = kRows,
                              .inputs = kColumns,
                              .outputs = kColumns,
                              .bias = false};
  const auto op = device->make(spec);
  const auto other = device->make(spec);
  const auto place = [&](std::size_t count, std::uint64_t seed) {
    DeviceBuffer buffer = device->allocate_floats(count);
    const Values values = random_values(count, seed);
    device->copy_to_device(*stream, values, buffer.as<float>());
    stream->finish();
    return buffer;
  };
  const DeviceBuffer x = place(kRows * kColumns, 1);
  const DeviceBuffer w = place(kColumns * kColumns, 2);
  const DeviceBuffer dy = place(kRows * kColumns, 3);
  const DeviceBuffer other_dy = place(kRows * kColumns, 4);
  const DeviceBuffer dw = place(kColumns * kColumns, 5);
  const auto bottom_gradient = [&](bool comes_between) {
    const DeviceBuffer dx = place(kRows * kColumns, 6);
    op->backward_parameters(*stream, x.as<float>(), dy.as<float>(), dw.as<float>(), {});
    if (comes_between) {
      other->backward_parameters(*stream, x.as<float>(), other_dy.as<float>(), dw.as<float>(), {});
    }
    op->backward_bottom(*stream, dy.as<float>(), w.as<float>(), dx.as<float>());
    Values values(kRows * kColumns);
    device->copy_to_host(*stream, dx.as<float>(), values);
    stream->finish();
    return values;
  };
  CHECK(bottom_gradient(false) == bottom_gradient(true));
}

TEST_CASE("a deconvolution's gradients are scaled where float16 would lose them and not its values",
          "[gpu]") {
  const With with({.precision = Precision::kFloat16});
  const Linear layer{
      "type: 'Deconvolution' convolution_param { num_output: 8 kernel_size: 4 stride: 2 pad: 1 }",
      {4, 12, 9, 9}};
  for (const float gradients : {1.0F, 1e-9F}) {
    const auto expected = run(cpu(), layer, gradients);
    const auto actual = run(cuda_device(), layer, gradients);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result " << i << " under gradients of " << gradients);
      CHECK(relative_error(actual[i], expected[i]) <= 3e-3);
    }
  }
}

TEST_CASE("weight gradients of float16 convolutions stay finite over the largest images", "[gpu]") {
  const With with({.precision = Precision::kFloat16});
  const auto weight_gradient = [](std::shared_ptr<Backend> backend, float bottom) {
    LayerBench bench("type: 'Convolution' convolution_param { num_output: 1 kernel_size: 1 }",
                     {Extents{16, 1, 256, 256}}, {.backend = std::move(backend)});
    fill_randomly(bench, 11, 0);
    // Values that all agree: the sum is as large as it can be.
    bench.bottoms[0].assign(bench.bottoms[0].size(), bottom);
    bench.top_gradients[0].assign(bench.top_gradients[0].size(), 1.0F);
    bench.forward();
    bench.backward();
    return bench.parameter_gradients.at(0);
  };
  for (const float bottom : {1.0F, 300.0F}) {
    CHECK(relative_error(weight_gradient(cuda_device(), bottom), weight_gradient(cpu(), bottom)) <=
          3e-3);
  }
}

TEST_CASE("a loss scale that is given is taken", "[gpu]") {
  const With with({.precision = Precision::kFloat16, .loss_scale = 1024});
  check_against_cpu(3e-3, 1e-4F);
}

TEST_CASE("deterministic algorithms give the same bits twice", "[gpu]") {
  const Precision precision = GENERATE(Precision::kFloat32, Precision::kTf32, Precision::kBfloat16);
  const With with({.precision = precision, .deterministic = true});
  for (const Linear& layer : linear()) {
    INFO(layer.definition);
    CHECK(run(cuda_device(), layer) == run(cuda_device(), layer));
  }
}
