// What the published nets cost, compared with what their authors and others have counted.
#include "worker/model/net_cost.hpp"

#include "proto/config/text.hpp"
#include "tests/unit/model/net_text.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// One image in phase TEST.
model::NetCost cost_of_model(const std::string& name, std::int64_t side,
                             pb::Phase phase = pb::TEST) {
  pb::NetParameter net;
  const auto path = std::filesystem::path(TAUT_SOURCE_FOLDER) / "configs/models" / name;
  REQUIRE(read_text(path, net).has_value());
  const auto graph = model::build_graph(
      net, {.phase = phase, .record = labelled_image(3, side, side), .batch = 1});
  INFO((graph ? std::string() : graph.error().message));
  REQUIRE(graph.has_value());
  return model::net_cost(graph.value());
}

double giga(std::uint64_t number) {
  return 1e-9 * static_cast<double>(number);
}

}  // namespace

TEST_CASE("the published nets have their published numbers of parameters", "[net_cost]") {
  // Caffe's bvlc_reference_caffenet and bvlc_alexnet hold 60,965,224.
  CHECK(cost_of_model("alexnet.prototxt", 227).parameters == 60'965'224);
  // Simonyan and Zisserman, ICLR 2015, table 2: 138 million for configuration D.
  CHECK(cost_of_model("vgg16.prototxt", 224).parameters == 138'357'544);
  // Caffe's bvlc_googlenet without and with its auxiliary classifiers.
  CHECK(cost_of_model("googlenet.prototxt", 224, pb::TRAIN).parameters == 13'378'280);
  // torchvision's resnet18 and resnet50.
  const auto resnet18 = cost_of_model("resnet18.prototxt", 224);
  CHECK(resnet18.parameters == 11'689'512);
  const auto resnet50 = cost_of_model("resnet50.prototxt", 224);
  CHECK(resnet50.parameters == 25'557'032);
  // A mean and a variance for each of the 26,560 channels that are normalised, and a weight for
  // each of the 53 layers.
  CHECK(resnet50.statistics == 2 * 26'560 + 53);
}

TEST_CASE("the published nets take their published numbers of multiply-adds", "[net_cost]") {
  CHECK(giga(cost_of_model("alexnet.prototxt", 227).multiply_adds) == Approx(0.724).epsilon(0.01));
  CHECK(giga(cost_of_model("vgg16.prototxt", 224).multiply_adds) == Approx(15.47).epsilon(0.01));
  // He et al., CVPR 2016, table 1: 1.8 and 3.8 billion.
  CHECK(giga(cost_of_model("resnet18.prototxt", 224).multiply_adds) == Approx(1.8).epsilon(0.03));
  const double resnet50 = giga(cost_of_model("resnet50.prototxt", 224).multiply_adds);
  CHECK(resnet50 > 3.8);
  CHECK(resnet50 < 4.15);
}

TEST_CASE("a small net's cost equals a count by hand", "[net_cost]") {
  const model::Graph graph = graph_of(
      kData +
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { "
      "num_output: 6 kernel_size: 3 group: 3 } }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'ip' inner_product_param { "
      "num_output: 5 } param { lr_mult: 0 } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n");
  const model::NetCost cost = model::net_cost(graph);
  // 4x3x8x6 images, 4x6x6x4 behind the convolution, 4x5 scores.
  const std::uint64_t weights = 6 * 1 * 3 * 3 + 6 + 5 * 144 + 5;
  CHECK(cost.parameters == weights);
  CHECK(cost.multiply_adds == 4 * 6 * 6 * 4 * 9 + 4 * 5 * 144);
  const std::uint64_t blobs = 4 * 3 * 8 * 6 + 4 + 4 * 6 * 6 * 4 + 4 * 5 + 1;
  CHECK(cost.inference_bytes == 4 * (blobs + weights));
  // Behind a frozen weight a bias learns: gradients of c and ip, of the loss's own top too.
  const std::uint64_t frozen = 5 * 144;
  std::uint64_t gradients = 0;
  for (const model::Blob& blob : graph.blobs) {
    if (blob.needs_gradient) gradients += model::element_count(blob.shape);
  }
  CHECK(gradients >= 4 * 6 * 6 * 4 + 4 * 5);
  CHECK(cost.training_bytes == 4 * (blobs + gradients + 2 * weights - frozen));
  REQUIRE(cost.layers.size() == graph.nodes.size());
  CHECK(cost.layers[2].top_bytes == 0);  // in place
}

TEST_CASE("a sequence's steps meet a layer's weights once each", "[net_cost]") {
  const model::Graph graph = graph_of(
      "layer { name: 'in' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 7 dim: 2 dim: "
      "4 } } }\n"
      "layer { name: 'lstm' type: 'LSTM' bottom: 'x' top: 'h' recurrent_param { num_output: 6 } }\n"
      "layer { name: 'att' type: 'MultiHeadAttention' bottom: 'h' top: 'a' attention_param { "
      "num_heads: 2 } }\n");
  const model::NetCost cost = model::net_cost(graph);
  CHECK(cost.layers[1].multiply_adds == 7 * 2 * (24 * 4 + 24 * 6));
  CHECK(cost.layers[2].multiply_adds == 7 * 2 * (18 * 6 + 6 * 6) + 2 * 2 * 7 * 7 * 6);
}

TEST_CASE("an x_static meets its weights once for all steps", "[net_cost]") {
  const model::Graph graph = graph_of(
      "layer { name: 'in' type: 'DummyData' top: 'x' top: 'cont' top: 's' dummy_data_param { shape "
      "{ dim: 7 dim: 2 dim: 4 } shape { dim: 7 dim: 2 } shape { dim: 2 dim: 5 } } }\n"
      "layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' bottom: 's' top: 'h' "
      "recurrent_param { num_output: 6 } }\n");
  CHECK(model::net_cost(graph).layers[1].multiply_adds == 7 * 2 * (24 * 4 + 24 * 6) + 2 * (24 * 5));
}

TEST_CASE("a shared parameter is counted once", "[net_cost]") {
  const std::string layer =
      "type: 'InnerProduct' bottom: 'data' param { name: 'w' } inner_product_param { num_output: 3 "
      "bias_term: false } }\n";
  const model::NetCost cost = model::net_cost(graph_of(
      kData + "layer { name: 'x' top: 'x' " + layer + "layer { name: 'y' top: 'y' " + layer));
  CHECK(cost.parameters == 3 * 144);
  CHECK(cost.multiply_adds == 2 * 4 * 3 * 144);
}
