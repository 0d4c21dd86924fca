#include "worker/layers/net.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "common/math/filler.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// A net with its parameters on the CPU. Everything that a pass writes is poisoned before it.
class NetBench {
 public:
  NetBench(const std::string& text, std::int64_t batch, pb::Phase phase = pb::TRAIN,
           int threads = 1)
      : backend_(cpu(threads)),
        stream_(backend_->make_stream()),
        graph(settle(text, phase, {.record = labelled_image(1, 12, 12), .batch = batch})),
        net(graph, *backend_, {.seed = 1, .slot = 0}) {
    for (std::size_t i = 0; i < net.parameters().size(); ++i) {
      const TableSpec& table = net.parameters()[i];
      memory_.push_back(backend_->allocate_floats(2 * table.count()));
      const auto both = memory_.back().as<float>();
      values.push_back(host_view(both.subspan(0, table.count())));
      gradients.push_back(host_view(both.subspan(table.count(), table.count())));
      math::fill(table.filler, 1, table.name, 0, values[i]);
      net.bind_value(i, both.subspan(0, table.count()));
      net.bind_gradient(i, both.subspan(table.count(), table.count()));
    }
    const auto records = static_cast<std::size_t>(batch);
    images = random_values(records * 144, 8);
    for (std::size_t i = 0; i < records; ++i) labels.push_back(static_cast<float>(i % 3));
  }

  double forward(std::int64_t clock = 0) {
    net.set_batch(*stream_, {images, labels});
    for (std::size_t i = 0; i < net.layer_count(); ++i) net.forward(i, *stream_, Clock(clock));
    return net.loss(*stream_);
  }
  double pass(std::int64_t clock = 0) {
    const double loss = forward(clock);
    for (const auto& gradient : gradients) {
      std::ranges::fill(gradient, std::numeric_limits<float>::quiet_NaN());
    }
    for (std::size_t i = net.layer_count(); i-- > 0;) net.backward(i, *stream_);
    return loss;
  }
  void descend(float rate) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t k = 0; k < values[i].size(); ++k) values[i][k] -= rate * gradients[i][k];
    }
  }
  std::vector<Net::Output> outputs() { return net.outputs(*stream_); }
  [[nodiscard]] std::size_t parameter(const std::string& name) const {
    for (std::size_t i = 0; i < net.parameters().size(); ++i) {
      if (net.parameters()[i].name == name) return i;
    }
    FAIL("no parameter " << name);
    return 0;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::vector<DeviceBuffer> memory_;

 public:
  model::Graph graph;
  Net net;
  std::vector<std::span<float>> values, gradients;
  Values images, labels;
};

/// Compares a parameter's gradient with central differences of the loss.
void check_gradient(NetBench& bench, const std::string& name) {
  INFO("parameter " << name);
  const std::size_t index = bench.parameter(name);
  bench.pass();
  const Values analytic(bench.gradients[index].begin(), bench.gradients[index].end());
  const std::size_t stride = std::max<std::size_t>(analytic.size() / 40, 1);
  for (std::size_t i = 0; i < analytic.size(); i += stride) {
    float& value = bench.values[index][i];
    const float kept = value;
    value = kept + 0.01F;
    const double up = bench.forward();
    value = kept - 0.01F;
    const double down = bench.forward();
    value = kept;
    INFO("element " << i);
    REQUIRE(analytic[i] == Approx((up - down) / 0.02).epsilon(0.02).margin(5e-4));
  }
}

constexpr const char* kSmall = R"(
  layer { name: "data" type: "Data" top: "data" top: "label" }
  layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
    convolution_param { num_output: 6 kernel_size: 5 weight_filler { type: "xavier" } } }
  layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
    pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
  layer { name: "tanh" type: "TanH" bottom: "pool" top: "pool" }
  layer { name: "ip1" type: "InnerProduct" bottom: "pool" top: "ip1"
    inner_product_param { num_output: 9 weight_filler { type: "xavier" } } }
  layer { name: "sigmoid" type: "Sigmoid" bottom: "ip1" top: "ip1" }
  layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
    inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
    include { phase: TEST } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
)";

}  // namespace

TEST_CASE("a net's gradients are those of central differences, through every layer", "[net]") {
  NetBench bench(kSmall, 4);
  for (const TableSpec& table : bench.net.parameters()) check_gradient(bench, table.name);
}

TEST_CASE("several readers of one blob sum their gradients, with and without in place", "[net]") {
  NetBench bench(R"(
    layer { name: "data" type: "Data" top: "data" top: "label" }
    layer { name: "first" type: "InnerProduct" bottom: "data" top: "x"
      inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
    layer { name: "tanh" type: "TanH" bottom: "x" top: "x" }
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "a"
      inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "b" type: "InnerProduct" bottom: "x" top: "b"
      inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "c" type: "Sigmoid" bottom: "x" top: "c" }
    layer { name: "d" type: "InnerProduct" bottom: "c" top: "d"
      inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "loss_a" type: "SoftmaxWithLoss" bottom: "a" bottom: "label" top: "loss_a" }
    layer { name: "loss_b" type: "SoftmaxWithLoss" bottom: "b" bottom: "label" top: "loss_b"
      loss_weight: 0.5 }
    layer { name: "loss_d" type: "SoftmaxWithLoss" bottom: "d" bottom: "label" top: "loss_d"
      loss_weight: 3 }
  )",
                 4);
  for (const TableSpec& table : bench.net.parameters()) check_gradient(bench, table.name);

  const double loss = bench.forward();
  const auto outputs = bench.outputs();
  REQUIRE(outputs.size() == 3);
  CHECK(loss == Approx(outputs[0].value + 0.5 * outputs[1].value + 3 * outputs[2].value));
}

TEST_CASE("a net learns from a Reduction whose top has a loss weight", "[net]") {
  // The second net's sum is read by another loss too, which adds its gradient to the weight; the
  // third's is copied in place.
  const std::string more =
      GENERATE("",
               "layer { name: 'square' type: 'Power' bottom: 'sum' top: 'square' loss_weight: 2"
               "  power_param { power: 2 scale: 0.1 } }",
               "layer { name: 'over' type: 'TanH' bottom: 'sum' top: 'sum' loss_weight: 3 }");
  NetBench bench(
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' }"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
      "  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }"
      "layer { name: 'sum' type: 'Reduction' bottom: 'ip' top: 'sum' loss_weight: 0.5"
      "  reduction_param { operation: SUMSQ coeff: 0.25 } }" +
          more,
      4);
  for (const TableSpec& table : bench.net.parameters()) check_gradient(bench, table.name);
  // Not zeros on both sides.
  const auto learned = bench.gradients[bench.parameter("ip/weight")];
  CHECK(std::ranges::any_of(learned, [](float g) { return std::abs(g) > 1e-2F; }));
  if (!more.empty()) return;
  const double loss = bench.forward();
  const auto outputs = bench.outputs();
  REQUIRE(outputs.size() == 1);
  CHECK(outputs[0].name == "sum");
  CHECK(loss == Approx(0.5 * outputs[0].value));
}

TEST_CASE("a decoder trains the encoder from whose last state it starts", "[net][sequence]") {
  // No layer reads the encoder's output; its h goes to the decoder as state and as constant bottom.
  NetBench bench(R"(
    layer { name: "data" type: "Data" top: "data" top: "label" }
    layer { name: "rows" type: "Reshape" bottom: "data" top: "x"
      reshape_param { shape { dim: 12 dim: 4 dim: 12 } } }
    layer { name: "sums" type: "Reduction" bottom: "x" top: "sums" reduction_param { axis: 2 } }
    layer { name: "ones" type: "Power" bottom: "sums" top: "cont"
      power_param { scale: 0 shift: 1 } }
    layer { name: "begin" type: "InnerProduct" bottom: "data" top: "begin"
      inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
    layer { name: "state" type: "Reshape" bottom: "begin" top: "h0"
      reshape_param { shape { dim: 1 dim: 4 dim: 5 } } }
    layer { name: "encoder" type: "LSTM" bottom: "x" bottom: "cont" bottom: "h0" bottom: "h0"
      top: "y" top: "h1" top: "c1"
      recurrent_param { num_output: 5 expose_hidden: true weight_filler { type: "xavier" } } }
    layer { name: "unread" type: "Silence" bottom: "y" }
    layer { name: "flat" type: "Reshape" bottom: "h1" top: "code"
      reshape_param { shape { dim: 4 dim: 5 } } }
    layer { name: "decoder" type: "LSTM" bottom: "x" bottom: "cont" bottom: "code" bottom: "h1"
      bottom: "c1" top: "z" top: "h2" top: "c2"
      recurrent_param { num_output: 5 expose_hidden: true last_step: true
        weight_filler { type: "xavier" } } }
    layer { name: "scores" type: "InnerProduct" bottom: "z" top: "scores"
      inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
  )",
                 4);
  for (const TableSpec& table : bench.net.parameters()) check_gradient(bench, table.name);
  // Not zeros on both sides: what the encoder learns arrives through the states alone.
  const auto encoder = bench.gradients[bench.parameter("encoder/weight_x")];
  CHECK(std::ranges::any_of(encoder, [](float g) { return std::abs(g) > 1e-3F; }));
}

TEST_CASE("a Crop takes its size from a blob that other layers train through", "[net]") {
  NetBench bench(R"(
    layer { name: "data" type: "Data" top: "data" top: "label" }
    layer { name: "fine" type: "Convolution" bottom: "data" top: "fine"
      convolution_param { num_output: 2 kernel_size: 1 weight_filler { type: "xavier" } } }
    layer { name: "coarse" type: "Convolution" bottom: "data" top: "coarse"
      convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } }
    layer { name: "crop" type: "Crop" bottom: "fine" bottom: "coarse" top: "cropped"
      crop_param { axis: 2 offset: 1 } }
    layer { name: "fuse" type: "Eltwise" bottom: "coarse" bottom: "cropped" top: "fused" }
    layer { name: "scores" type: "InnerProduct" bottom: "fused" top: "scores"
      inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
  )",
                 4);
  for (const TableSpec& table : bench.net.parameters()) check_gradient(bench, table.name);
}

TEST_CASE("a shared parameter sums its layers' gradients and is complete at the first", "[net]") {
  NetBench bench(R"(
    layer { name: "data" type: "Data" top: "data" top: "label" }
    layer { name: "in" type: "InnerProduct" bottom: "data" top: "x"
      inner_product_param { num_output: 6 weight_filler { type: "xavier" } } }
    layer { name: "one" type: "InnerProduct" bottom: "x" top: "y" param { name: "shared" }
      inner_product_param { num_output: 6 bias_term: false weight_filler { type: "xavier" } } }
    layer { name: "tanh" type: "TanH" bottom: "y" top: "z" }
    layer { name: "two" type: "InnerProduct" bottom: "z" top: "scores" param { name: "shared" }
      inner_product_param { num_output: 6 bias_term: false weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
  )",
                 4);
  check_gradient(bench, "shared");
  const std::size_t shared = bench.parameter("shared");
  CHECK(std::ranges::count(bench.net.parameters_of(2), shared) == 1);
  CHECK(std::ranges::count(bench.net.parameters_of(4), shared) == 1);
  CHECK(std::ranges::count(bench.net.gradients_after(2), shared) == 1);
  CHECK(bench.net.gradients_after(4).empty());
}

TEST_CASE("each trained parameter's gradient is completed by exactly one layer", "[net]") {
  NetBench bench(kSmall, 2);
  std::multiset<std::size_t> completed;
  for (std::size_t i = 0; i < bench.net.layer_count(); ++i) {
    const auto after = bench.net.gradients_after(i);
    completed.insert(after.begin(), after.end());
  }
  CHECK(completed == std::multiset<std::size_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a trained parameter before no loss has a gradient of zeros", "[net]") {
  NetBench bench(R"(
    layer { name: "data" type: "Data" top: "data" top: "label" }
    layer { name: "aside" type: "InnerProduct" bottom: "data" top: "aside"
      inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
      inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
  )",
                 2);
  bench.pass();
  CHECK(std::ranges::count(bench.gradients[bench.parameter("aside/weight")], 0.0F) == 288);
  CHECK(std::ranges::count(bench.net.gradients_after(1), std::size_t{0}) == 1);
}

TEST_CASE("a frozen parameter's gradient is not written, its neighbours' are computed", "[net]") {
  const std::string layer = GENERATE(
      "type: 'Convolution' convolution_param { num_output: 3 kernel_size: 12 "
      "weight_filler { type: 'xavier' } }",
      "type: 'InnerProduct' inner_product_param { num_output: 3 "
      "weight_filler { type: 'xavier' } }");
  NetBench bench(
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' }"
      "layer { name: 'in' bottom: 'data' top: 'x' param { lr_mult: 0 } param { lr_mult: 1 } " +
          layer +
          "}"
          "layer { name: 'out' type: 'InnerProduct' bottom: 'x' top: 'y'"
          "  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }"
          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss' }",
      3);
  check_gradient(bench, "in/bias");
  CHECK(std::isnan(bench.gradients[bench.parameter("in/weight")][0]));
}

TEST_CASE("two runs of a training end in the same bits, with one thread and with two", "[net]") {
  const int threads = GENERATE(1, 2);
  const auto run = [&] {
    NetBench bench(kSmall, 16, pb::TRAIN, threads);
    for (std::int64_t clock = 0; clock < 20; ++clock) {
      bench.pass(clock);
      bench.descend(0.1F);
    }
    Values all;
    for (const auto& value : bench.values) all.insert(all.end(), value.begin(), value.end());
    return all;
  };
  CHECK(run() == run());
}

TEST_CASE("descending the gradient learns the batch", "[net]") {
  NetBench bench(kSmall, 12);
  const double before = bench.pass();
  for (std::int64_t clock = 0; clock < 300; ++clock) {
    bench.descend(0.5F);
    bench.pass(clock);
  }
  CHECK(before > 0.9);
  CHECK(bench.forward() < 0.1);
}

TEST_CASE("parameters may be rebound between clocks", "[net]") {
  NetBench bench(kSmall, 4);
  bench.pass();
  const Values expected(bench.gradients[0].begin(), bench.gradients[0].end());
  Values value(bench.values[0].begin(), bench.values[0].end());
  Values gradient(value.size(), std::numeric_limits<float>::quiet_NaN());
  bench.net.bind_value(0, DeviceSpan<const float>(value.data(), value.size()));
  bench.net.bind_gradient(0, DeviceSpan<float>(gradient.data(), gradient.size()));
  bench.pass();
  CHECK(gradient == expected);
}

TEST_CASE("a TEST net gives its outputs by name, and has no backward", "[net]") {
  NetBench bench(kSmall, 5, pb::TEST);
  const double loss = bench.pass();
  const auto outputs = bench.outputs();
  REQUIRE(outputs.size() == 2);
  CHECK(outputs[0].name == "accuracy");
  CHECK(outputs[1].name == "loss");
  CHECK(outputs[1].value == Approx(loss));
  CHECK(std::isnan(bench.gradients[0][0]));
}

TEST_CASE("an Accuracy's second top is reported class by class, each with its labels", "[net]") {
  const std::string text =
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' }"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
      "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }"
      "layer { name: 'right' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'all' top: 'each'";
  // The labels are 0, 1, 2, 0, 1.
  NetBench bench(text + " }", 5, pb::TEST);
  bench.forward();
  const auto outputs = bench.outputs();
  REQUIRE(outputs.size() == 5);
  CHECK(outputs[0].name == "all");
  CHECK(outputs[0].weight == 1);
  CHECK(outputs[1].name == "each[0]");
  CHECK(outputs[4].name == "each[3]");
  Values weights;
  double right = 0;
  for (std::size_t k = 1; k < outputs.size(); ++k) {
    weights.push_back(static_cast<float>(outputs[k].weight));
    right += outputs[k].weight * outputs[k].value;
  }
  CHECK(weights == Values{2, 2, 1, 0});
  CHECK(right / 5 == Approx(outputs[0].value));

  NetBench ignoring(text + " accuracy_param { ignore_label: 1 } }", 5, pb::TEST);
  ignoring.forward();
  CHECK(ignoring.outputs()[2].weight == 0);
  CHECK(ignoring.outputs()[3].weight == 1);
}

TEST_CASE("a layer that the device cannot work with is refused by name", "[net]") {
  const auto graph = settle(
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [2, 3, 4, 5] } } }"
      "layer { name: 'deep' type: 'InnerProduct' bottom: 'x' top: 'y'"
      "  inner_product_param { num_output: 2 axis: 3 } }",
      pb::TRAIN);
  const auto backend = cpu();
  CHECK_THROWS_WITH(Net(graph, *backend, {}),
                    Catch::Matchers::Contains("layer \"deep\" (InnerProduct)") &&
                        Catch::Matchers::Contains("axis 3"));
}
