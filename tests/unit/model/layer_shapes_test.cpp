// Shapes and refusals of the layers of images, channels, elements, shapes and losses.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/model/net_text.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// What a layer makes of "data" (4x3x8x6).
std::string top_of(const std::string& type, const std::string& rest) {
  return shape_of(graph_of(one_layer(type, rest)), "out");
}

/// The refusal of a layer that reads "data" and is named "l".
std::string refusal(const std::string& type, const std::string& rest) {
  const std::string message = error_of_net(one_layer(type, rest));
  const std::string title = "layer \"l\" (" + type + "): ";
  CHECK(message.find(title) == 0);
  return message.substr(std::min(title.size(), message.size()));
}

}  // namespace

TEST_CASE("layers that move elements settle their tops", "[shapes]") {
  CHECK(top_of("Flatten", "") == "4x144");
  CHECK(top_of("Flatten", "flatten_param { axis: 1 end_axis: 2 }") == "4x24x6");
  CHECK(top_of("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }") == "4x144");
  CHECK(top_of("Reshape", "reshape_param { shape { dim: 2 dim: 12 } axis: 1 num_axes: 2 }") ==
        "4x2x12x6");
  CHECK(top_of("Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }") ==
        "4x3x8x6x1");
  CHECK(top_of("Reduction", "reduction_param { axis: 2 }") == "4x3");
  CHECK(top_of("Reduction", "") == "scalar");
  CHECK(top_of("ArgMax", "") == "4x1x1x1");
  CHECK(top_of("ArgMax", "argmax_param { top_k: 5 out_max_val: true }") == "4x2x5x1");
  CHECK(top_of("ArgMax", "argmax_param { axis: 2 top_k: 5 }") == "4x3x5x6");
  CHECK(top_of("Concat", "bottom: 'data' concat_param { axis: -2 }") == "4x3x16x6");
  const model::Graph sliced = graph_of(
      one_layer("Slice", "top: 'b' top: 'c' slice_param { slice_point: 1 slice_point: 2 }"));
  CHECK(shape_of(sliced, "c") == "4x1x8x6");
}

TEST_CASE("layers that move elements refuse impossible shapes", "[shapes]") {
  CHECK(refusal("Flatten", "flatten_param { axis: 2 end_axis: 1 }") ==
        "flatten_param: end_axis 1 is before axis 2");
  CHECK(refusal("Reshape", "reshape_param { shape { dim: 5 dim: -1 } }") ==
        "reshape_param.shape: 576 elements cannot be shared among 5");
  CHECK(refusal("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }") ==
        "reshape_param.shape has dim -1 twice: only one can be computed");
  CHECK(refusal("Reshape", "reshape_param { shape { dim: 7 } }") ==
        "the bottom of shape 4x3x8x6 has 576 elements, but the top of shape 7 has 7");
  CHECK(refusal("Reshape", "reshape_param { shape { dim: -2 } }") ==
        "reshape_param.shape has dim -2; 0 copies, -1 is computed, others must be at least 1");
  CHECK(refusal("Reshape", "reshape_param { axis: 9 }") ==
        "reshape_param.axis is 9, but the bottom has shape 4x3x8x6");
  CHECK(refusal("Slice", "top: 'b' slice_param { axis: 1 }") ==
        "2 tops cannot share axis 1 of the bottom of shape 4x3x8x6 evenly; give slice_point");
  CHECK(refusal("Slice", "top: 'b' slice_param { slice_point: 3 }") ==
        "slice_param.slice_point: a part from 3 to 3 of axis 1, whose extent is 3; points must "
        "rise and "
        "stay inside");
  CHECK(refusal("Slice", "slice_param { axis: 1 slice_dim: 1 }") ==
        "slice_param.axis or slice_dim: two spellings of the same field: give one of them");
  CHECK(refusal("Concat", "bottom: 'label'") ==
        "bottom \"data\" has shape 4x3x8x6, but bottom \"label\" has shape 4: only axis 1 may "
        "differ");
  CHECK(refusal("ArgMax", "argmax_param { axis: 1 top_k: 4 }") ==
        "argmax_param.top_k is 4, but 3 elements are ranked");
  CHECK(refusal("Reduction", "reduction_param { axis: 4 }") ==
        "reduction_param.axis is 4, but the bottom of shape 4x3x8x6 has axes -4 to 3");
}

TEST_CASE("layers of channels and images settle or refuse", "[shapes]") {
  CHECK(top_of("Deconvolution",
               "convolution_param { num_output: 2 kernel_size: 4 stride: 2 pad: 1 }") ==
        "4x2x16x12");
  CHECK(refusal("Deconvolution", "convolution_param { num_output: 2 kernel_size: 1 pad: 3 }") ==
        "the pad of 3 leaves nothing of the width: 1 * (6 - 1) + 1 - 2 * 3");
  CHECK(refusal("LRN", "lrn_param { local_size: 4 }") ==
        "lrn_param.local_size must be odd and at most 1023, is 4");
  CHECK(refusal("LRN", "lrn_param { norm_region: WITHIN_CHANNEL k: 2 }") ==
        "lrn_param.k is 2: within a channel it is always 1");
  CHECK(refusal("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 pad: 1 }") ==
        "pooling_param.pool STOCHASTIC has no padding, as in Caffe: omit pad");
  CHECK(refusal("BatchNorm", "param { lr_mult: 1 }") ==
        "param.lr_mult is 1: running statistics are averaged, not learned; give 0 or omit it");
  CHECK(refusal("BatchNorm", "batch_norm_param { eps: 0 }") ==
        "batch_norm_param.eps must be greater than 0, is 0");
  CHECK(refusal("Scale", "scale_param { axis: 2 num_axes: 3 }") ==
        "scale_param.num_axes is 3 from axis 2 on, but the bottom has shape 4x3x8x6");
  CHECK(
      refusal("Bias", "bottom: 'label'") ==
      "the second bottom has shape 4, which is not part of the first one's 4x3x8x6 from axis 1 on");

  const model::Graph norm = graph_of(one_layer("BatchNorm", "param { lr_mult: 0 }"));
  REQUIRE(norm.parameters.size() == 3);
  CHECK(norm.parameters[0].kind == TableKind::kAveraged);
  CHECK(norm.parameters[2].count() == 1);
  const model::Graph kept =
      graph_of(one_layer("BatchNorm", "batch_norm_param { use_global_stats: true }"));
  CHECK(kept.parameters[0].kind == TableKind::kFrozen);
  const model::Graph scale = graph_of(one_layer("Scale", "scale_param { bias_term: true }"));
  CHECK(scale.parameters[0].filler == math::Filler{math::Filler::Kind::kConstant, 1, 0});
}

TEST_CASE("a recurrent layer's parameters are in Caffe's order, x_static's before weight_h",
          "[shapes]") {
  const model::Graph graph = graph_of(
      "layer { name: 'in' type: 'DummyData' top: 'x' top: 'cont' top: 's' dummy_data_param { shape "
      "{ dim: 7 dim: 2 dim: 4 } shape { dim: 7 dim: 2 } shape { dim: 2 dim: 5 dim: 3 } } } "
      "layer { name: 'l' type: 'RNN' bottom: 'x' bottom: 'cont' bottom: 's' top: 'h' "
      "recurrent_param { num_output: 6 num_layers: 2 } }");
  std::vector<std::string> found;
  for (const TableSpec& table : graph.parameters) {
    found.push_back(table.name + " " + model::to_string(table.shape));
  }
  CHECK(found == std::vector<std::string>{"l/weight_x 6x4", "l/bias_x 6", "l/weight_x_static 6x15",
                                          "l/weight_h 6x6", "l/weight_x_l1 6x6", "l/bias_x_l1 6",
                                          "l/weight_h_l1 6x6", "l/weight_o 6x6", "l/bias_o 6"});
}

TEST_CASE("a recurrent layer has a limited number of stacked layers", "[shapes]") {
  CHECK(
      error_of_net("layer { name: 'in' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: "
                   "7 dim: 2 dim: 4 } } } "
                   "layer { name: 'l' type: 'LSTM' bottom: 'x' top: 'h' "
                   "recurrent_param { num_output: 6 num_layers: 4294967295 } }") ==
      "layer \"l\" (LSTM): recurrent_param.num_layers must be at most 1024, is 4294967295");
}

TEST_CASE("running statistics are not shared", "[shapes]") {
  const std::string norm = "type: 'BatchNorm' bottom: 'data' param { name: 'm' }";
  CHECK(error_of_net(kData + "layer { name: 'a' top: 'a' " + norm +
                     " } layer { name: 'b' top: 'b' " + norm + " }") ==
        "layer \"b\" (BatchNorm): parameter \"m\" is shared: running statistics belong to one "
        "layer; give them another name, or none");
}

TEST_CASE("elementwise layers and losses settle or refuse", "[shapes]") {
  CHECK(refusal("Eltwise", "bottom: 'label'") ==
        "bottom \"data\" has shape 4x3x8x6, and bottom \"label\" has shape 4: they must be equal");
  CHECK(refusal("Eltwise", "bottom: 'data' eltwise_param { coeff: 1 }") ==
        "eltwise_param.coeff is given 1 times for 2 bottoms");
  CHECK(refusal("Eltwise", "bottom: 'data' eltwise_param { operation: MAX coeff: 1 coeff: 1 }") ==
        "eltwise_param.coeff is for operation SUM only");
  CHECK(refusal("ELU", "elu_param { alpha: -1 }") == "elu_param.alpha must be at least 0, is -1");
  CHECK(refusal("Exp", "exp_param { base: -2 }") ==
        "exp_param.base must be greater than 0, or -1 for e, is -2");
  CHECK(refusal("Log", "log_param { base: 1 }") == "log_param.base is 1, which has no logarithm");
  CHECK(refusal("Power", "power_param { shift: nan }") == "power_param has the number nan");
  CHECK(refusal("EuclideanLoss", "bottom: 'label'") ==
        "bottoms of shapes 4x3x8x6 and 4 cannot be compared element by element");
  CHECK(top_of("EuclideanLoss", "bottom: 'data'") == "scalar");
  CHECK(refusal("HingeLoss", "bottom: 'data'") ==
        "scores of shape 4x3x8x6 need 4 labels, but the second bottom has shape 4x3x8x6");
  CHECK(refusal("ContrastiveLoss", "bottom: 'data' bottom: 'data'") ==
        "4 pairs need as many labels, but the third bottom has shape 4x3x8x6");
}

TEST_CASE("a layer that keeps no sign does not overwrite a ReLU's top", "[shapes]") {
  const auto chain = [](const std::string& type) {
    return graph_of(kData +
                    "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'x'"
                    "  convolution_param { num_output: 2 kernel_size: 3 } }"
                    "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }"
                    "layer { name: 'd' type: 'Dropout' bottom: 'x' top: 'x' }"
                    "layer { name: 'l' type: '" +
                    type + "' bottom: 'x' top: 'x' }");
  };
  for (const char* type : {"BatchNorm", "Bias", "Exp", "Scale", "Power"}) {
    INFO(type);
    CHECK(chain(type).nodes[4].tops != chain(type).nodes[4].bottoms);
  }
  for (const char* type : {"ELU", "TanH", "ReLU"}) {
    INFO(type);
    CHECK(chain(type).nodes[4].tops == chain(type).nodes[4].bottoms);
  }
}
