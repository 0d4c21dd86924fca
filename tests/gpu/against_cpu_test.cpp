#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/gpu/compare.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// One layer on both devices. Errors are those of relative_error(); float32 where nothing else is said.
struct Case {
  std::string definition;
  std::vector<Extents> bottoms;
  double tolerance = 2e-6;
  pb::Phase phase = pb::TRAIN;
  int classes = 0;       // the last bottom: labels of so many classes, instead of random numbers
  bool is_loss = false;  // its weight takes the place of a top gradient
  int tops = 1;
};

const std::string kConvolution =
    "type: 'Convolution' convolution_param {{ num_output: {} kernel_size: {} stride: {} pad: {} "
    "group: {} dilation: {} weight_filler {{ type: 'xavier' }} }}";

std::vector<Case> linear_cases() {
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
      {"type: 'InnerProduct' inner_product_param { num_output: 512 bias_term: false "
       "weight_filler { type: 'xavier' } }",
       {{64, 800}},
       1e-5}};
}

std::vector<Case> channel_cases() {
  return {
      {"type: 'BatchNorm' batch_norm_param { eps: 1e-3 }", {{8, 5, 13, 11}}, 1e-5},
      {"type: 'BatchNorm' batch_norm_param { eps: 1e-3 }", {{300, 70}}, 1e-5},
      {"type: 'Scale' scale_param { bias_term: true }", {{6, 7, 9, 5}}, 1e-5},
      {"type: 'Scale' scale_param { axis: 1 }", {{6, 7, 9, 5}, {7, 9}}, 1e-5},
      {"type: 'Bias' bias_param { axis: 1 }", {{65, 129}}, 1e-5},
      {"type: 'PReLU'", {{5, 6, 7, 8}}, 1e-5},
      {"type: 'PReLU' prelu_param { channel_shared: true }", {{5, 6, 7, 8}}, 1e-5},
      {"type: 'LRN' lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 }", {{3, 12, 7, 9}}, 1e-5},
      {"type: 'LRN' lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 k: 2 }", {{3, 12, 7, 9}}, 1e-5},
      {"type: 'LRN' lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: "
       "WITHIN_CHANNEL }",
       {{3, 4, 7, 9}},
       1e-5}};
}

std::vector<Case> pooling_cases() {
  const std::string kPooling =
      "type: 'Pooling' pooling_param {{ pool: {} kernel_size: {} stride: {} pad: {} }}";
  return {{fmt::format(fmt::runtime(kPooling), "MAX", 2, 2, 0), {{4, 5, 12, 12}}},
          {fmt::format(fmt::runtime(kPooling), "MAX", 3, 2, 0), {{4, 5, 13, 10}}},
          {fmt::format(fmt::runtime(kPooling), "MAX", 3, 2, 1), {{4, 5, 11, 14}}},
          {fmt::format(fmt::runtime(kPooling), "AVE", 3, 2, 1), {{4, 5, 11, 14}}},
          {fmt::format(fmt::runtime(kPooling), "AVE", 4, 3, 0), {{4, 5, 14, 13}}},
          {"type: 'Pooling' pooling_param { pool: AVE global_pooling: true }", {{4, 5, 7, 7}}}};
}

std::vector<Case> elementwise_cases() {
  const auto one = [](const std::string& type) {
    // Transcendental functions: a few units in the last place of either library.
    return Case{"type: '" + type + "'", {{3, 5, 7, 11}}, 3e-6};
  };
  return {one("ReLU"),
          one("Sigmoid"),
          one("TanH"),
          one("ELU"),
          one("AbsVal"),
          one("BNLL"),
          one("GELU"),
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

std::vector<Case> shape_cases() {
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
      {"type: 'Reduction' reduction_param { operation: SUMSQ axis: 1 coeff: 2 }", {{3, 6, 5, 4}}},
      {"type: 'Reduction' reduction_param { operation: ASUM }", {{3, 1000}}},
      {"type: 'ArgMax' argmax_param { top_k: 3 out_max_val: true }", {{5, 40}}, 2e-6, pb::TEST},
      {"type: 'ArgMax' argmax_param { top_k: 2 axis: 1 }", {{5, 9, 4, 3}}, 2e-6, pb::TEST}};
}

std::vector<Case> loss_cases() {
  const auto loss = [](const std::string& definition, std::vector<Extents> bottoms, int classes) {
    return Case{definition, std::move(bottoms), 1e-5, pb::TRAIN, classes, true};
  };
  const auto of_each_class = [](const std::string& fields, std::vector<Extents> bottoms,
                                int classes) {
    return Case{"type: 'Accuracy' accuracy_param { " + fields + " }",
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

std::vector<Case> sequence_cases() {
  const std::string kRecurrent =
      "type: '{}' recurrent_param {{ num_output: 24 weight_filler {{ type: 'xavier' }} }}";
  const auto recurrent = [&](const char* type) {
    // Errors grow over the steps.
    return Case{
        fmt::format(fmt::runtime(kRecurrent), type), {{12, 5, 20}, {12, 5}}, 3e-5, pb::TRAIN, 2};
  };
  // Without markers a device may go over all steps at once. Few: nothing stops the errors' growth.
  const auto unmarked = [&](const char* type) {
    return Case{fmt::format(fmt::runtime(kRecurrent), type), {{4, 5, 20}}, 1e-4};
  };
  // The last bottom is a state, so that markers are random numbers, which scale what goes on.
  const auto with_states = [&](const char* type, std::size_t states) {
    Case test = recurrent(type);
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

std::uint64_t fresh_seed() {
  const char* given = std::getenv("TAUT_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : random_seed();
}

void check(const Case& test, std::uint64_t seed) {
  INFO(test.definition << ", seed " << seed << " (TAUT_TEST_SEED repeats it)");
  const auto run = [&](std::shared_ptr<Backend> backend) {
    LayerBench bench(test.definition, test.bottoms,
                     {.phase = test.phase, .tops = test.tops, .backend = std::move(backend)});
    fill_randomly(bench, seed, test.classes);
    bench.forward(Clock(5));
    if (test.is_loss) {
      for (Values& gradient : bench.top_gradients) gradient.assign(gradient.size(), 1.0F);
    }
    if (test.phase == pb::TRAIN) bench.backward();
    return results_of(bench, test.phase == pb::TRAIN);
  };
  const std::vector<Values> expected = run(cpu());
  const std::vector<Values> actual = run(cuda_device());
  REQUIRE(expected.size() == actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("result " << i << " of " << expected.size());
    CHECK(relative_error(actual[i], expected[i]) <= test.tolerance);
  }
}

void check_all(const std::vector<Case>& cases) {
  const std::uint64_t seed = fresh_seed();
  for (const Case& test : cases) check(test, seed);
}

}  // namespace

TEST_CASE("convolutions and inner products agree with the CPU's", "[gpu][kernel]") {
  check_all(linear_cases());
}
TEST_CASE("what works on channels agrees with the CPU's", "[gpu][kernel]") {
  check_all(channel_cases());
}
TEST_CASE("pooling agrees with the CPU's, also where windows reach over the edge",
          "[gpu][kernel]") {
  check_all(pooling_cases());
}
TEST_CASE("what works element by element agrees with the CPU's", "[gpu][kernel]") {
  check_all(elementwise_cases());
}
TEST_CASE("what moves, reduces or ranks elements agrees with the CPU's", "[gpu][kernel]") {
  check_all(shape_cases());
}
TEST_CASE("losses and accuracies agree with the CPU's", "[gpu][kernel]") {
  check_all(loss_cases());
}
TEST_CASE("layers over sequences agree with the CPU's", "[gpu][kernel]") {
  check_all(sequence_cases());
}
