// Nets whose layers a device computes several at once, compared with the same nets on the CPU,
// which computes each separately.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/math/filler.hpp"
#include "tests/gpu/compare.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "worker/engine/fused_ops.hpp"
#include "worker/layers/net.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr std::int64_t kBatch = 6;
constexpr std::int64_t kSide = 12;

struct Pass {
  double loss = 0;
  std::vector<Values> gradients;
};

/// Two clocks of a net from the same parameters, whose values then change: recordings are replayed.
Pass run(const std::string& text, const std::shared_ptr<Backend>& backend, float poison = 0) {
  const model::Graph graph =
      settle(text, pb::TRAIN, {.record = labelled_image(2, kSide, kSide), .batch = kBatch});
  Net net(graph, *backend, {.seed = 1, .slot = 0});
  const auto stream = backend->make_stream();
  std::vector<DeviceBuffer> memory;
  Pass pass;
  for (std::size_t i = 0; i < net.parameters().size(); ++i) {
    const TableSpec& table = net.parameters()[i];
    memory.push_back(backend->allocate_floats(2 * table.count()));
    const auto both = memory.back().as<float>();
    Values values = random_values(table.count(), i + 10);
    math::fill(table.filler, 1, table.name, 0, values);
    // A Scale's numbers differ from channel to channel, and some are negative.
    if (table.name.find("scale") != std::string::npos) values = random_values(table.count(), i);
    backend->copy_to_device(*stream, values, both.subspan(0, table.count()));
    backend->fill(*stream, both.subspan(table.count(), table.count()), 0);  // if it is frozen
    stream->finish();
    net.bind_value(i, both.subspan(0, table.count()));
    net.bind_gradient(i, both.subspan(table.count(), table.count()));
    pass.gradients.emplace_back(table.count());
  }
  Values labels;
  for (std::int64_t i = 0; i < kBatch; ++i) labels.push_back(static_cast<float>(i % 3));
  for (std::int64_t clock = 0; clock < 6; ++clock) {
    Values images = random_values(static_cast<std::size_t>(2 * kBatch * kSide * kSide),
                                  8 + static_cast<std::uint64_t>(clock));
    images[17] += poison;
    net.set_batch(*stream, {images, labels});
    for (std::size_t i = 0; i < net.layer_count(); ++i) net.forward(i, *stream, Clock(clock));
    for (std::size_t i = net.layer_count(); i-- > 0;) net.backward(i, *stream);
    stream->finish();
  }
  pass.loss = net.loss(*stream);
  for (std::size_t i = 0; i < pass.gradients.size(); ++i) {
    const auto count = net.parameters()[i].count();
    backend->copy_to_host(*stream, memory[i].as<float>().subspan(count, count), pass.gradients[i]);
  }
  stream->finish();
  return pass;
}

const std::string kHead = R"(
  layer { name: "data" type: "Data" top: "data" top: "label" }
)";
const std::string kTail = R"(
  layer { name: "last" type: "InnerProduct" bottom: "x" top: "last"
    inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "last" bottom: "label" top: "loss" }
)";

std::string convolution(const std::string& name, const std::string& bottom, int outputs, int kernel,
                        const std::string& more = "") {
  return "layer { name: \"" + name + "\" type: \"Convolution\" bottom: \"" + bottom +
         "\" top: \"x\" convolution_param { num_output: " + std::to_string(outputs) +
         " kernel_size: " + std::to_string(kernel) + " " + more +
         " weight_filler { type: \"xavier\" } } }\n";
}
const std::string kNorm = R"(layer { name: "norm" type: "BatchNorm" bottom: "x" top: "x" }
)";
const std::string kScale = R"(layer { name: "scale" type: "Scale" bottom: "x" top: "x"
    scale_param { bias_term: true } }
)";
const std::string kRelu = R"(layer { name: "relu" type: "ReLU" bottom: "x" top: "x" }
)";

// In front of a norm a bias has no effect, and its gradient no digits.
const std::string kNoBias = "bias_term: false";

struct NetCase {
  const char* what;
  std::string text;
};

std::vector<NetCase> nets() {
  const std::string product = R"(layer { name: "ip" type: "InnerProduct" bottom: "data" top: "x"
    inner_product_param { num_output: 8 bias_term: false weight_filler { type: "xavier" } } })";
  const std::string odd_product = R"(layer { name: "ip" type: "InnerProduct" bottom: "data" top: "x"
    inner_product_param { num_output: 7 bias_term: false weight_filler { type: "xavier" } } })";
  return {
      {"planes of 64 elements",
       convolution("conv", "data", 5, 5, kNoBias) + kNorm + kScale + kRelu},
      {"planes of 81 elements",
       convolution("conv", "data", 5, 4, kNoBias) + kNorm + kScale + kRelu},
      {"no ReLU", convolution("conv", "data", 5, 5, kNoBias) + kNorm + kScale},
      {"no summands, in their own blobs",
       convolution("conv", "data", 4, 5) +
           R"(layer { name: "norm" type: "BatchNorm" bottom: "x" top: "n" }
              layer { name: "scale" type: "Scale" bottom: "n" top: "s" }
              layer { name: "relu" type: "ReLU" bottom: "s" top: "s" }
              layer { name: "end" type: "TanH" bottom: "s" top: "t" }
              layer { name: "sum" type: "Eltwise" bottom: "t" bottom: "x" top: "y" }
              layer { name: "relu2" type: "ReLU" bottom: "y" top: "y" }
              layer { name: "pool" type: "Pooling" bottom: "y" top: "p"
                pooling_param { pool: AVE kernel_size: 2 stride: 2 } })"},
      {"rows of 8", product + kNorm + kScale + kRelu},
      {"rows of 7", odd_product + kNorm + kScale + kRelu},
      {"a ReLU behind a convolution", convolution("conv", "data", 5, 5) + kRelu +
                                          R"(layer { name: "conv2" type: "Convolution" bottom: "x"
                top: "y" convolution_param { num_output: 6 kernel_size: 3
                weight_filler { type: "xavier" } } }
              layer { name: "relu2" type: "ReLU" bottom: "y" top: "y" })"},
      {"a ReLU behind a weighted sum", convolution("conv", "data", 5, 5) +
                                           R"(layer { name: "a" type: "TanH" bottom: "x" top: "a" }
              layer { name: "sum" type: "Eltwise" bottom: "x" bottom: "a" top: "y"
                eltwise_param { coeff: 0.5 coeff: -2 } }
              layer { name: "relu" type: "ReLU" bottom: "y" top: "y" })"},
      {"the first layer's is frozen",
       convolution("conv", "data", 5, 5, kNoBias) + kNorm +
           R"(layer { name: "scale" type: "Scale" bottom: "x" top: "x"
                param { lr_mult: 0 } param { lr_mult: 1 } scale_param { bias_term: true } })" +
           kRelu},
  };
}

std::string whole(const NetCase& net) {
  std::string tail = kTail;
  for (const char* last : {"p", "y"}) {
    if (net.text.find("top: \"" + std::string(last) + "\"") == std::string::npos) continue;
    tail.replace(tail.find("bottom: \"x\""), 11, "bottom: \"" + std::string(last) + "\"");
    break;
  }
  return kHead + net.text + tail;
}

}  // namespace

TEST_CASE("layers that are computed at once agree with the CPU's", "[gpu]") {
  const auto device = cuda_device();
  device->set_math({.deterministic = true});
  REQUIRE(fusing(*device) != nullptr);
  for (const NetCase& net : nets()) {
    INFO(net.what);
    const Pass expected = run(whole(net), cpu());
    const Pass found = run(whole(net), device);
    CHECK(found.loss == Approx(expected.loss).epsilon(1e-4));
    REQUIRE(found.gradients.size() == expected.gradients.size());
    for (std::size_t i = 0; i < found.gradients.size(); ++i) {
      INFO("parameter " << i);
      CHECK(relative_error(found.gradients[i], expected.gradients[i]) < 2e-4);
    }
  }
  device->set_math({});
}

TEST_CASE("layers that are computed at once have the same bits twice", "[gpu]") {
  const auto device = cuda_device();
  device->set_math({.deterministic = true});
  for (const NetCase& net : nets()) {
    INFO(net.what);
    CHECK(run(whole(net), device).gradients == run(whole(net), device).gradients);
  }
  device->set_math({});
}

TEST_CASE("what is no number shows behind layers that are computed at once", "[gpu]") {
  const auto device = cuda_device();
  device->set_math({.deterministic = true});
  for (const NetCase& net : nets()) {
    INFO(net.what);
    CHECK(std::isnan(run(whole(net), device, std::numeric_limits<float>::quiet_NaN()).loss));
  }
  device->set_math({});
}
