#include "tests/unit/layers/layer_cases.hpp"

#include <fmt/format.h>

#include <utility>

namespace taut::test {
namespace {

/// A case whose gradients are compared with central differences too.
LayerCase compared(LayerCase test, std::vector<Extents> small) {
  test.small = std::move(small);
  return test;
}

const std::string kConvolution =
    "type: 'Convolution' convolution_param {{ num_output: {} kernel_size: {} stride: {} pad: {} "
    "group: {} dilation: {} weight_filler {{ type: 'xavier' }} }}";

}  // namespace

std::vector<LayerCase> linear_cases() {
  // Sums of up to 2400 products in another order: 1e-5 of the largest.
  return {
      {fmt::format(fmt::runtime(kConvolution), 20, 5, 1, 0, 1, 1), {{8, 3, 28, 28}}, 1e-5},
      {fmt::format(fmt::runtime(kConvolution), 12, 3, 2, 1, 2, 1), {{4, 6, 17, 13}}, 1e-5},
      {fmt::format(fmt::runtime(kConvolution), 8, 3, 1, 2, 1, 2), {{3, 5, 15, 16}}, 1e-5},
      {fmt::format(fmt::runtime(kConvolution), 96, 11, 4, 0, 1, 1), {{2, 3, 67, 67}}, 1e-5},
      {"type: 'Deconvolution' convolution_param { num_output: 7 kernel_size: 4 stride: 2 pad: 1 "
       "weight_filler { type: 'xavier' } }",
       {{3, 5, 9, 7}},
       1e-5},
      {"type: 'InnerProduct' inner_product_param { num_output: 37 weight_filler { type: "
       "'xavier' } }",
       {{17, 3, 5, 7}},
       1e-5},
      compared({"type: 'InnerProduct' inner_product_param { num_output: 37 transpose: true "
                "weight_filler { type: 'xavier' } }",
                {{17, 3, 5, 7}},
                1e-5},
               {{2, 3, 2, 2}}),
      {"type: 'InnerProduct' inner_product_param { num_output: 512 bias_term: false "
       "weight_filler { type: 'xavier' } }",
       {{64, 800}},
       1e-5}};
}

std::vector<LayerCase> channel_cases() {
  return {
      {"type: 'BatchNorm' batch_norm_param { eps: 1e-3 }", {{8, 5, 13, 11}}, 1e-5},
      {"type: 'BatchNorm' batch_norm_param { eps: 1e-3 }", {{300, 70}}, 1e-5},
      {"type: 'Scale' scale_param { bias_term: true }", {{6, 7, 9, 5}}, 1e-5},
      {"type: 'Scale' scale_param { axis: 1 }", {{6, 7, 9, 5}, {7, 9}}, 1e-5},
      {"type: 'Bias' bias_param { axis: 1 }", {{65, 129}}, 1e-5},
      compared({"type: 'PReLU'", {{5, 6, 7, 8}}, 1e-5}, {{2, 5, 3, 2}}),
      compared({"type: 'PReLU'", {{65, 129}}, 1e-5}, {{3, 4, 5}}),
      // One sum of 1,680 products of both signs, in another order on a device.
      compared({"type: 'PReLU' prelu_param { channel_shared: true }", {{5, 6, 7, 8}}, 5e-5},
               {{2, 5, 3, 2}}),
      compared({"type: 'MVN'", {{4, 5, 6, 7}}, 1e-5}, {{2, 2, 3, 2}}),
      compared({"type: 'MVN' mvn_param { across_channels: true eps: 1e-3 }", {{4, 5, 6, 7}}, 1e-5},
               {{2, 2, 3, 2}}),
      compared({"type: 'MVN' mvn_param { normalize_variance: false }", {{4, 5, 6, 7}}, 1e-5},
               {{2, 2, 3, 2}}),
      {"type: 'LRN' lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 }", {{3, 12, 7, 9}}, 1e-5},
      {"type: 'LRN' lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 k: 2 }", {{3, 12, 7, 9}}, 1e-5},
      {"type: 'LRN' lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: "
       "WITHIN_CHANNEL }",
       {{3, 4, 7, 9}},
       1e-5}};
}

std::vector<LayerCase> pooling_cases() {
  const std::string kPooling =
      "type: 'Pooling' pooling_param {{ pool: {} kernel_size: {} stride: {} pad: {} }}";
  return {{fmt::format(fmt::runtime(kPooling), "MAX", 2, 2, 0), {{4, 5, 12, 12}}},
          {fmt::format(fmt::runtime(kPooling), "MAX", 3, 2, 0), {{4, 5, 13, 10}}},
          {fmt::format(fmt::runtime(kPooling), "MAX", 3, 2, 1), {{4, 5, 11, 14}}},
          {fmt::format(fmt::runtime(kPooling), "AVE", 3, 2, 1), {{4, 5, 11, 14}}},
          {fmt::format(fmt::runtime(kPooling), "AVE", 4, 3, 0), {{4, 5, 14, 13}}},
          {fmt::format(fmt::runtime(kPooling), "STOCHASTIC", 3, 2, 0), {{4, 5, 11, 14}}},
          {fmt::format(fmt::runtime(kPooling), "STOCHASTIC", 2, 2, 0),
           {{4, 5, 12, 12}},
           2e-6,
           pb::TEST},
          {"type: 'Pooling' pooling_param { pool: AVE global_pooling: true }", {{4, 5, 7, 7}}}};
}

std::vector<LayerCase> elementwise_cases() {
  const auto one = [](const std::string& type) {
    // Transcendental functions: a few units in the last place of either library.
    LayerCase test{"type: '" + type + "'", {{3, 5, 7, 11}}, 3e-6};
    test.small = {{2, 3, 3, 2}};
    return test;
  };
  return {one("ReLU"),
          one("Sigmoid"),
          one("TanH"),
          one("ELU"),
          one("AbsVal"),
          one("BNLL"),
          one("GELU"),
          compared({"type: 'Swish' swish_param { beta: 1.7 }", {{999}}, 3e-6}, {{2, 3, 3, 2}}),
          compared({"type: 'Clip' clip_param { min: -0.4 max: 0.7 }", {{999}}}, {{2, 3, 3, 2}}),
          {"type: 'Threshold' threshold_param { threshold: 0.2 }", {{999}}, 2e-6, pb::TEST},
          {"type: 'ReLU' relu_param { negative_slope: 0.1 }", {{1023}}},
          {"type: 'Exp' exp_param { base: 2 scale: 0.5 shift: 1 }", {{999}}, 3e-6},
          {"type: 'Power' power_param { power: 2 scale: 0.5 shift: 3 }", {{999}}, 3e-6},
          {"type: 'Power' power_param { power: 1.5 scale: 0.5 shift: 3 }", {{999}}, 3e-6},
          {"type: 'Log' log_param { base: 2 scale: 0.5 shift: 3 }", {{999}}, 3e-6},
          {"type: 'Dropout' dropout_param { dropout_ratio: 0.3 }", {{7, 3, 5, 9}}},
          {"type: 'Eltwise' eltwise_param { operation: SUM coeff: 1 coeff: -2 coeff: 0.5 }",
           {{4, 99}, {4, 99}, {4, 99}}},
          {"type: 'Eltwise' eltwise_param { operation: PROD }", {{4, 99}, {4, 99}, {4, 99}}},
          {"type: 'Eltwise' eltwise_param { operation: MAX }", {{4, 99}, {4, 99}, {4, 99}}}};
}

std::vector<LayerCase> shape_cases() {
  return {
      {"type: 'Concat' concat_param { axis: 1 }", {{3, 2, 5, 4}, {3, 6, 5, 4}}},
      {"type: 'Slice' slice_param { axis: 1 slice_point: 2 }",
       {{3, 6, 5, 4}},
       2e-6,
       pb::TRAIN,
       0,
       false,
       2},
      {"type: 'Flatten'", {{3, 6, 5, 4}}},
      compared({"type: 'Crop' crop_param { offset: 1 offset: 2 }", {{3, 6, 5, 7}, {1, 2, 4, 3}}},
               {{2, 2, 3, 4}, {1, 1, 2, 2}}),
      compared({"type: 'Crop' crop_param { axis: 1 offset: 2 }", {{3, 6, 5}, {3, 4, 2}}},
               {{2, 4, 5}, {2, 2, 2}}),
      compared({"type: 'Crop' crop_param { axis: 3 }", {{3, 6, 5, 7}, {3, 6, 5, 7}}},
               {{2, 1, 2, 3}, {2, 1, 2, 3}}),
      compared({"type: 'Tile' tile_param { tiles: 3 }", {{3, 6, 5, 4}}}, {{2, 2, 2, 3}}),
      compared({"type: 'Tile' tile_param { axis: 2 tiles: 2 }", {{3, 6, 5, 4}}}, {{2, 2, 2, 3}}),
      // No bottom: its gradient is compared with PyTorch's (golden_layers.py).
      {"type: 'Parameter' parameter_param { shape { dim: 3 dim: 5 dim: 2 dim: 4 } }", {}},
      {"type: 'Reduction' reduction_param { operation: SUMSQ axis: 1 coeff: 2 }", {{3, 6, 5, 4}}},
      {"type: 'Reduction' reduction_param { operation: ASUM }", {{3, 1000}}},
      {"type: 'ArgMax' argmax_param { top_k: 3 out_max_val: true }", {{5, 40}}, 2e-6, pb::TEST},
      {"type: 'ArgMax' argmax_param { top_k: 2 axis: 1 }", {{5, 9, 4, 3}}, 2e-6, pb::TEST}};
}

std::vector<LayerCase> loss_cases() {
  const auto loss = [](const std::string& definition, std::vector<Extents> bottoms, int classes) {
    return LayerCase{definition, std::move(bottoms), 1e-5, pb::TRAIN, classes, true};
  };
  // Scores, labels, and the matrix behind them.
  const auto infogain = [](const std::string& definition, std::vector<Extents> bottoms,
                           std::vector<Extents> small) {
    LayerCase test{definition, std::move(bottoms), 1e-5, pb::TRAIN, 3, true};
    test.small = std::move(small);
    test.labels_from_end = 2;
    return test;
  };
  const auto of_each_class = [](const std::string& fields, std::vector<Extents> bottoms,
                                int classes) {
    return LayerCase{"type: 'Accuracy' accuracy_param { " + fields + " }",
                     std::move(bottoms),
                     1e-7,
                     pb::TEST,
                     classes,
                     false,
                     2};
  };
  return {loss("type: 'SoftmaxWithLoss'", {{64, 10}, {64}}, 10),
          loss("type: 'SoftmaxWithLoss' loss_param { ignore_label: 3 }", {{9, 1000}, {9}}, 1000),
          loss("type: 'SoftmaxWithLoss' loss_param { normalization: FULL }",
               {{3, 6, 5, 4}, {3, 1, 5, 4}}, 6),
          infogain("type: 'InfogainLoss'", {{64, 10}, {64}, {1, 1, 10, 10}},
                   {{4, 3}, {4}, {1, 1, 3, 3}}),
          infogain("type: 'InfogainLoss' loss_param { ignore_label: 2 normalization: FULL }",
                   {{3, 6, 5, 4}, {3, 1, 5, 4}, {1, 1, 6, 6}},
                   {{1, 4, 2, 2}, {1, 1, 2, 2}, {1, 1, 4, 4}}),
          loss("type: 'EuclideanLoss'", {{5, 33}, {5, 33}}, 0),
          loss("type: 'SigmoidCrossEntropyLoss'", {{5, 33}, {5, 33}}, 2),
          loss("type: 'HingeLoss' hinge_loss_param { norm: L2 }", {{12, 7}, {12}}, 7),
          loss("type: 'ContrastiveLoss' contrastive_loss_param { margin: 0.7 }",
               {{12, 7}, {12, 7}, {12}}, 2),
          {"type: 'Softmax'", {{33, 100}}, 3e-6},
          {"type: 'Softmax'", {{3, 10, 5, 4}}, 3e-6},
          {"type: 'Accuracy' accuracy_param { top_k: 2 }", {{64, 10}, {64}}, 1e-7, pb::TEST, 10},
          of_each_class("top_k: 2", {{64, 10}, {64}}, 10),
          // Two classes have no label, one is ignored; labels that several blocks look through.
          of_each_class("ignore_label: 3", {{2, 9, 70, 80}, {2, 1, 70, 80}}, 7),
          of_each_class("top_k: 5", {{1, 1000}, {1}}, 1000)};
}

std::vector<LayerCase> sequence_cases() {
  const std::string kRecurrent =
      "type: '{}' recurrent_param {{ num_output: 24 weight_filler {{ type: 'xavier' }} }}";
  const auto recurrent = [&](const char* type) {
    // Errors grow over the steps.
    return LayerCase{
        fmt::format(fmt::runtime(kRecurrent), type), {{12, 5, 20}, {12, 5}}, 3e-5, pb::TRAIN, 2};
  };
  // Without markers a device may go over all steps at once. Few: nothing stops the errors' growth.
  const auto unmarked = [&](const char* type) {
    return LayerCase{fmt::format(fmt::runtime(kRecurrent), type), {{4, 5, 20}}, 1e-4};
  };
  // The last bottom is a state, so that markers are random numbers, which scale what continues.
  const auto with_states = [&](const char* type, std::size_t states) {
    LayerCase test = recurrent(type);
    const std::string exposed = "recurrent_param { expose_hidden: true num_layers: 2 ";
    test.definition.replace(test.definition.find("recurrent_param {"), 17, exposed);
    test.bottoms.push_back({5, 2, 3, 4});
    test.bottoms.insert(test.bottoms.end(), states, {2, 5, 24});
    test.classes = 0;
    test.tops = static_cast<int>(1 + states);
    return test;
  };
  return {recurrent("RNN"),
          recurrent("LSTM"),
          recurrent("GRU"),
          unmarked("RNN"),
          unmarked("LSTM"),
          unmarked("GRU"),
          with_states("RNN", 1),
          with_states("LSTM", 2),
          with_states("GRU", 1),
          {"type: 'Embed' embed_param { input_dim: 11 num_output: 70 weight_filler { type: "
           "'xavier' } }",
           {{9, 40}},
           1e-5,
           pb::TRAIN,
           11},
          {"type: 'LayerNorm'", {{13, 3, 64}}, 1e-5},
          {"type: 'MultiHeadAttention' attention_param { num_heads: 4 causal: true }",
           {{10, 3, 96}},
           2e-5}};
}

}  // namespace taut::test
