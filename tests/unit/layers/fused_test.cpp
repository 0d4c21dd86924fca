#include "worker/layers/fused.hpp"

#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"

using namespace taut;
using namespace taut::test;
using layers::FusedNodes;
using Kind = FusedNodes::Kind;

namespace {

const std::string kHead = R"(
  layer { name: "data" type: "Data" top: "data" top: "label" }
  layer { name: "conv" type: "Convolution" bottom: "data" top: "x"
    convolution_param { num_output: 4 kernel_size: 3 } }
)";
const std::string kTail = R"(
  layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
    inner_product_param { num_output: 3 } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";
const std::string kNorm = R"(layer { name: "norm" type: "BatchNorm" bottom: "x" top: "x" }
)";
const std::string kScale = R"(layer { name: "scale" type: "Scale" bottom: "x" top: "x" }
)";
const std::string kRelu = R"(layer { name: "relu" type: "ReLU" bottom: "x" top: "x" }
)";

std::vector<FusedNodes> nodes_of(const std::string& middle, pb::Phase phase = pb::TRAIN) {
  return layers::fused_nodes(
      settle(kHead + middle + kTail, phase, {.record = labelled_image(1, 12, 12), .batch = 2}));
}

}  // namespace

TEST_CASE("a BatchNorm, its Scale and its ReLU are one", "[layers]") {
  const auto all = nodes_of(kNorm + kScale + kRelu);
  REQUIRE(all.size() == 1);
  CHECK(all[0].kind == Kind::kScaledBatchNorm);
  CHECK(all[0].first == 2);
  CHECK(all[0].relu);
  const auto without = nodes_of(kNorm + kScale);
  REQUIRE(without.size() == 1);
  CHECK_FALSE(without[0].relu);
}

TEST_CASE("in a test phase a BatchNorm is by itself", "[layers]") {
  CHECK(nodes_of(kNorm + kScale + kRelu, pb::TEST).empty());
}

TEST_CASE("kept statistics, factors of several axes and slopes are not computed at once",
          "[layers]") {
  const std::string kept = R"(layer { name: "norm" type: "BatchNorm" bottom: "x" top: "x"
    batch_norm_param { use_global_stats: true } })";
  CHECK(nodes_of(kept + kScale + kRelu).empty());
  const std::string wide = R"(layer { name: "scale" type: "Scale" bottom: "x" top: "x"
    scale_param { num_axes: 2 } })";
  CHECK(nodes_of(kNorm + wide + kRelu).empty());
  const std::string leaky = R"(layer { name: "relu" type: "ReLU" bottom: "x" top: "x"
    relu_param { negative_slope: 0.1 } })";
  const auto all = nodes_of(kNorm + kScale + leaky);
  REQUIRE(all.size() == 1);
  CHECK_FALSE(all[0].relu);
  CHECK(nodes_of(leaky).empty());
}

TEST_CASE("normalised values that another layer reads are computed", "[layers]") {
  const std::string read_twice = R"(
    layer { name: "norm" type: "BatchNorm" bottom: "x" top: "n" }
    layer { name: "scale" type: "Scale" bottom: "n" top: "s" }
    layer { name: "sum" type: "Eltwise" bottom: "n" bottom: "s" top: "y" })";
  CHECK(nodes_of(read_twice).empty());
  const std::string unread = R"(
    layer { name: "norm" type: "BatchNorm" bottom: "x" top: "n" }
    layer { name: "scale" type: "Scale" bottom: "n" top: "s" })";
  CHECK(nodes_of(unread).size() == 1);
}

TEST_CASE("a gradient that a layer does not pass keeps layers apart", "[layers]") {
  const std::string cut = R"(layer { name: "scale" type: "Scale" bottom: "x" top: "x"
    propagate_down: false })";
  CHECK(nodes_of(kNorm + cut).empty());
}

TEST_CASE("a ReLU in place is one with the convolution or the sum in front of it", "[layers]") {
  const auto convolution = nodes_of(kRelu);
  REQUIRE(convolution.size() == 1);
  CHECK(convolution[0].kind == Kind::kConvolution);
  CHECK(convolution[0].first == 1);
  const auto tested = nodes_of(kRelu, pb::TEST);
  CHECK(tested.size() == 1);
  const auto sum = nodes_of(R"(
    layer { name: "tanh" type: "TanH" bottom: "x" top: "t" }
    layer { name: "sum" type: "Eltwise" bottom: "x" bottom: "t" top: "y" }
    layer { name: "relu" type: "ReLU" bottom: "y" top: "y" })");
  REQUIRE(sum.size() == 1);
  CHECK(sum[0].kind == Kind::kSum);
  const auto elsewhere = nodes_of(R"(
    layer { name: "relu" type: "ReLU" bottom: "x" top: "r" })");
  CHECK(elsewhere.empty());
  const auto largest = nodes_of(R"(
    layer { name: "tanh" type: "TanH" bottom: "x" top: "t" }
    layer { name: "max" type: "Eltwise" bottom: "x" bottom: "t" top: "y"
      eltwise_param { operation: MAX } }
    layer { name: "relu" type: "ReLU" bottom: "y" top: "y" })");
  CHECK(largest.empty());
}
