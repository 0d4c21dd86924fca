// Nets in the older spellings, the rules of levels and stages, and fields without an effect.
#include "worker/model/upgrade.hpp"

#include "tests/support/catch.hpp"
#include "tests/unit/model/net_text.hpp"

using namespace taut;
using namespace taut::test;

namespace {

using Lines = std::vector<std::string>;

Lines names_of(const model::Graph& graph) {
  Lines names;
  for (const model::Node& node : graph.nodes) names.push_back(node.definition.name());
  return names;
}

}  // namespace

TEST_CASE("layers of the older vocabulary build as today's do", "[upgrade]") {
  const std::string old = R"(
    layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1 blobs_lr: 2
      weight_decay: 1 weight_decay: 0 convolution_param { num_output: 2 kernel_size: 3 } }
    layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
    layers { name: "ip" type: INNER_PRODUCT bottom: "conv" top: "ip" param: "own"
      inner_product_param { num_output: 5 } }
    layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip" bottom: "label" top: "loss"
      loss_weight: 0.5 include { phase: TRAIN } })";
  const std::string data =
      "layers { name: 'in' type: DATA top: 'data' top: 'label' data_param { batch_size: 4 } }";
  const model::Graph graph = graph_of(data + old);
  CHECK(shape_of(graph, "conv") == "4x2x6x4");
  CHECK(graph.nodes[2].tops == graph.nodes[1].tops);
  CHECK(graph.nodes.back().definition.type() == "SoftmaxWithLoss");
  CHECK(graph.nodes.back().loss_weights == std::vector<float>{0.5F});
  REQUIRE(graph.parameters.size() == 4);
  CHECK(graph.parameters[0].name == "conv/weight");
  CHECK(graph.parameters[1].lr_mult == 2);
  CHECK(graph.parameters[1].decay_mult == 0);
  CHECK(graph.parameters[2].name == "own");
  CHECK(names_of(graph_of(data + old, pb::TEST)) == Lines{"in", "conv", "relu", "ip"});

  CHECK(error_of_net(kData + data) ==
        "the net has `layer` and `layers`: use one of them, `layer` is the current one");
  CHECK(error_of_net("layers { name: 'a' top: 'a' }") == "layers \"a\" has no type");
}

TEST_CASE("the older vocabulary reads lists of images and dummy data", "[upgrade]") {
  const auto net = model::upgrade_net(net_of(R"(
    layers { name: "list" type: IMAGE_DATA top: "data" top: "label"
      image_data_param { source: "list.txt" batch_size: 3 new_height: 8 new_width: 6
        scale: 0.5 mean_file: "mean" crop_size: 4 mirror: true } }
    layers { name: "dummy" type: DUMMY_DATA top: "more"
      dummy_data_param { num: 3 channels: 2 height: 5 width: 1 } })"));
  REQUIRE(net.has_value());
  const pb::LayerParameter& list = net.value().layer(0);
  CHECK(list.type() == "ImageData");
  CHECK(list.image_data_param().source() == "list.txt");
  CHECK(list.image_data_param().new_width() == 6);
  CHECK(list.transform_param().scale() == 0.5F);
  CHECK(list.transform_param().mean_file() == "mean");
  CHECK(list.transform_param().crop_size() == 4);
  CHECK(list.transform_param().mirror());
  CHECK_FALSE(list.image_data_param().has_crop_size());
  CHECK(shape_of(graph_of(to_text(net.value())), "more") == "3x2x5x1");
}

TEST_CASE("older fields of a list of images do not clear today's", "[upgrade]") {
  const auto net =
      model::upgrade_net(net_of("layer { name: 'list' type: 'ImageData' top: 'data'"
                                "  transform_param { scale: 0.25 crop_size: 7 mean_value: 9 }"
                                "  image_data_param { source: 'list.txt' crop_size: 4 } }"));
  REQUIRE(net.has_value());
  const pb::TransformationParameter& transform = net.value().layer(0).transform_param();
  CHECK(transform.scale() == 0.25F);
  CHECK(transform.crop_size() == 4);
  CHECK(transform.mean_value_size() == 1);
}

TEST_CASE("a deploy net's inputs are an Input layer at its front", "[upgrade]") {
  const std::string layer =
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'"
      "  convolution_param { num_output: 2 kernel_size: 3 } }";
  const model::Graph dims = graph_of(
      "input: 'data' input_dim: 10 input_dim: 3 input_dim: 8 input_dim: 6 " + layer, pb::TEST);
  CHECK(shape_of(dims, "data") == "10x3x8x6");
  CHECK(shape_of(dims, "c") == "10x2x6x4");
  CHECK(names_of(dims) == Lines{"input", "c"});
  const model::Graph shapes = graph_of(
      "input: 'data' input_shape { dim: 1 dim: 3 dim: 4 dim: 4 }"
      "input: 'more' input_shape { dim: 7 } " +
          layer,
      pb::TEST);
  CHECK(shape_of(shapes, "data") == "1x3x4x4");
  CHECK(shape_of(shapes, "more") == "7");

  CHECK(error_of_net("input: 'data' input_dim: 1 " + layer) ==
        "input is given 1 times, input_shape 0 times and input_dim 1 times: give each input a "
        "shape, or four dims");
  CHECK(error_of_net("input_dim: 1 " + layer) ==
        "input_shape or input_dim is given, but input is missing");
  CHECK(error_of_net("input: 'data' input_shape { dim: 1 } input_dim: 1 " + layer) ==
        "input_shape and input_dim are both given: use one of them");
}

TEST_CASE("rules of levels and stages are compared with the net's state", "[upgrade]") {
  const std::string layers = kData +
                             "layer { name: 'deep' type: 'ReLU' bottom: 'data' top: 'deep'"
                             "  include { min_level: 2 } }"
                             "layer { name: 'flat' type: 'ReLU' bottom: 'data' top: 'flat'"
                             "  include { max_level: 1 } }"
                             "layer { name: 'fine' type: 'ReLU' bottom: 'data' top: 'fine'"
                             "  include { stage: 'fine' stage: 'slow' } }"
                             "layer { name: 'quick' type: 'ReLU' bottom: 'data' top: 'quick'"
                             "  include { not_stage: 'slow' phase: TRAIN } }"
                             "layer { name: 'out' type: 'ReLU' bottom: 'data' top: 'out'"
                             "  exclude { stage: 'fine' } }";
  CHECK(names_of(graph_of(layers)) == Lines{"in", "flat", "quick", "out"});
  CHECK(names_of(graph_of("state { level: 2 stage: 'fine' } " + layers)) ==
        Lines{"in", "deep", "quick"});
  CHECK(names_of(graph_of("state { level: 1 stage: 'fine' stage: 'slow' } " + layers)) ==
        Lines{"in", "flat", "fine"});
  CHECK(names_of(graph_of(layers, pb::TEST)) == Lines{"in", "flat", "out"});
}

TEST_CASE("fields of a net without an effect are named", "[upgrade]") {
  const pb::NetParameter net = net_of(
      "force_backward: true debug_info: true "
      "layer { name: 'a' type: 'Convolution' convolution_param { engine: CAFFE } }"
      "layer { name: 'b' type: 'Convolution' convolution_param { engine: CUDNN } }"
      "layer { name: 'c' type: 'ReLU' relu_param { engine: CAFFE } }"
      "layer { name: 'd' type: 'Eltwise' eltwise_param { stable_prod_grad: false } }");
  CHECK(model::net_warnings(net) ==
        Lines{"force_backward: gradients are computed where a parameter needs them",
              "debug_info: nothing reads it",
              // NOLINTNEXTLINE(bugprone-suspicious-missing-comma)
              "convolution_param.engine of layer \"a\" and 1 more: superseded by the worker's "
              "device setting",
              "eltwise_param.stable_prod_grad of layer \"d\": nothing reads it",
              "relu_param.engine of layer \"c\": superseded by the worker's device setting"});
  CHECK(model::net_warnings(net_of(kData)).empty());
}

TEST_CASE("propagate_down stops a gradient", "[upgrade]") {
  const auto text = [](const std::string& rest) {
    return kData +
           "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'"
           "  convolution_param { num_output: 2 kernel_size: 3 } }"
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'ip' " +
           rest +
           "  inner_product_param { num_output: 5 } }"
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'l' }";
  };
  CHECK(graph_of(text("")).nodes[1].needs_backward);
  const model::Graph stopped = graph_of(text("propagate_down: false"));
  CHECK_FALSE(stopped.nodes[1].needs_backward);
  CHECK(stopped.nodes[2].needs_backward);
  CHECK(error_of_net(text("propagate_down: false propagate_down: true")) ==
        "layer \"ip\" propagate_down is given 2 times for 1 bottoms");
}

TEST_CASE("propagate_down stops a gradient at a layer in place", "[upgrade]") {
  const auto text = [](const std::string& rest) {
    return kData +
           "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'"
           "  convolution_param { num_output: 2 kernel_size: 3 } }"
           "layer { name: 'relu' type: 'ReLU' bottom: 'c' top: 'c' " +
           rest +
           " }"
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'ip'"
           "  inner_product_param { num_output: 5 } }"
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'l' }";
  };
  const model::Graph passing = graph_of(text("propagate_down: true"));
  CHECK(passing.nodes[1].needs_backward);
  CHECK(passing.nodes[2].tops == passing.nodes[1].tops);
  const model::Graph stopped = graph_of(text("propagate_down: false"));
  CHECK_FALSE(stopped.nodes[1].needs_backward);
  CHECK_FALSE(stopped.nodes[2].needs_backward);
  CHECK(stopped.nodes[3].needs_backward);
  CHECK(stopped.nodes[3].bottoms == stopped.nodes[2].tops);
}
