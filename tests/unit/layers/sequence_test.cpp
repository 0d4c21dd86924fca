#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/gradient_check.hpp"

using namespace taut;
using namespace taut::test;

namespace {

std::string recurrent(const std::string& type, const std::string& fields) {
  return "type: '" + type + "' recurrent_param { " + fields + " }";
}

/// Rows [first, first + count) of a blob whose outermost extent has rows of `width` elements.
Values rows_of(const Values& values, std::size_t first, std::size_t count, std::size_t width) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * width)};
}

void check_close(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(2e-6));
}

std::string refusal(const std::string& definition, const std::vector<Extents>& bottoms) {
  try {
    LayerBench bench(definition, bottoms);
  } catch (const std::exception& refused) {
    return refused.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a recurrent layer's gradients are those of central differences",
          "[layers][gradient][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  const std::string fields =
      GENERATE(as<std::string>{}, "num_output: 3", "num_output: 2 num_layers: 2",
               "num_output: 3 num_layers: 3 dropout_ratio: 0.3");
  INFO(type << " " << fields);
  SECTION("over one sequence") {
    LayerBench bench(recurrent(type, fields), {{4, 2, 3}});
    check_gradients(bench);
  }
  SECTION("with sequences that begin anywhere") {
    LayerBench bench(recurrent(type, fields), {{4, 3, 2}, {4, 3}});
    bench.differentiable[1] = false;
    bench.bottoms[1] = {0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1};
    check_gradients(bench);
  }
}

TEST_CASE("a top of only the last step is that step, and has its gradients",
          "[layers][gradient][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  const std::string fields = "num_output: 3 num_layers: 2 ";
  LayerBench last(recurrent(type, fields + "last_step: true"), {{4, 2, 3}});
  LayerBench whole(recurrent(type, fields), {{4, 2, 3}});
  REQUIRE(last.top_shapes[0] == Extents{2, 3});
  last.forward();
  whole.forward();
  check_close(last.tops[0], rows_of(whole.tops[0], 3, 1, 6));
  check_gradients(last);
}

TEST_CASE("a marker of 0 starts a sequence from zeros", "[layers][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  LayerBench whole(recurrent(type, "num_output: 3 num_layers: 2"), {{5, 1, 2}, {5, 1}});
  whole.bottoms[1] = {0, 1, 0, 1, 1};
  whole.forward();
  LayerBench second(recurrent(type, "num_output: 3 num_layers: 2"), {{3, 1, 2}});
  second.bottoms[0] = rows_of(whole.bottoms[0], 2, 3, 2);
  second.parameters = whole.parameters;
  second.forward();
  check_close(rows_of(whole.tops[0], 2, 3, 3), second.tops[0]);
}

TEST_CASE("a batch continues where the previous one ended", "[layers][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  LayerBench whole(recurrent(type, "num_output: 3 num_layers: 2"), {{6, 2, 2}, {6, 2}});
  whole.bottoms[1].assign(12, 1.0F);
  whole.bottoms[1][0] = whole.bottoms[1][1] = 0;
  whole.forward();

  LayerBench halves(recurrent(type, "num_output: 3 num_layers: 2"), {{3, 2, 2}, {3, 2}});
  halves.parameters = whole.parameters;
  for (const std::size_t half : {0U, 1U}) {
    halves.bottoms[0] = rows_of(whole.bottoms[0], 3 * half, 3, 4);
    halves.bottoms[1] = rows_of(whole.bottoms[1], 3 * half, 3, 2);
    halves.forward();
    check_close(halves.tops[0], rows_of(whole.tops[0], 3 * half, 3, 6));
  }
}

TEST_CASE("without carry_state, and without markers, every batch starts from zeros",
          "[layers][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  const bool marked = GENERATE(true, false);
  std::vector<Extents> shapes{{3, 2, 2}};
  if (marked) shapes.push_back({3, 2});
  LayerBench bench(recurrent(type, "num_output: 3 carry_state: false"), shapes);
  if (marked) bench.bottoms[1].assign(6, 1.0F);
  bench.forward();
  const Values first = bench.tops[0];
  bench.forward();
  CHECK(bench.tops[0] == first);
}

TEST_CASE("an RNN's top is Caffe's tanh(W_ho h + b_o)", "[layers][sequence]") {
  LayerBench hidden(recurrent("RNN", "num_output: 2 output_transform: false"), {{3, 2, 2}});
  LayerBench caffe(recurrent("RNN", "num_output: 2"), {{3, 2, 2}});
  REQUIRE(caffe.parameters.size() == 5);
  std::copy_n(caffe.parameters.begin(), 3, hidden.parameters.begin());
  hidden.forward();
  caffe.forward();
  for (std::size_t i = 0; i < 12; ++i) {
    const Values& w = caffe.parameters[3];
    const float* h = hidden.tops[0].data() + i / 2 * 2;
    const std::size_t k = i % 2;
    const double sum = w[2 * k] * h[0] + w[2 * k + 1] * h[1] + caffe.parameters[4][k];
    CHECK(caffe.tops[0][i] == Approx(std::tanh(sum)).margin(1e-6));
  }
}

TEST_CASE("a recurrent layer gives the same with two threads", "[layers][sequence]") {
  const std::string definition = recurrent("LSTM", "num_output: 64 num_layers: 2");
  LayerBench one(definition, {{5, 300, 7}});
  LayerBench two(definition, {{5, 300, 7}}, {.threads = 2});
  for (LayerBench* bench : {&one, &two}) {
    bench->forward();
    bench->backward();
  }
  check_close(one.tops[0], two.tops[0]);
  check_close(one.bottom_gradients[0], two.bottom_gradients[0]);
}

TEST_CASE("an embedding's gradients are those of central differences",
          "[layers][gradient][sequence]") {
  LayerBench bench("type: 'Embed' embed_param { input_dim: 4 num_output: 3 }", {{3, 2}});
  bench.differentiable[0] = false;
  bench.bottoms[0] = {0, 3, 3, 1, 0, 3};
  check_gradients(bench);
}

TEST_CASE("a number that names no row of an embedding is refused", "[layers][sequence]") {
  LayerBench bench("type: 'Embed' embed_param { input_dim: 4 num_output: 3 }", {{3}});
  const float number = GENERATE(4.0F, -1.0F, NAN);
  bench.bottoms[0] = {0, number, 1};
  try {
    bench.forward();
    FAIL("no refusal");
  } catch (const std::invalid_argument& refused) {
    CHECK_THAT(refused.what(),
               Catch::Matchers::Contains("at position 1 of the batch is not in [0, 4)"));
  }
}

TEST_CASE("a position embedding's gradients are those of central differences",
          "[layers][gradient][sequence]") {
  LayerBench bench("type: 'PositionEmbed'", {{3, 2, 4}});
  check_gradients(bench);
}

TEST_CASE("a layer norm's gradients are those of central differences",
          "[layers][gradient][sequence]") {
  const std::string fields =
      GENERATE(as<std::string>{}, "", "axis: 1", "affine: false", "eps: 0.1");
  INFO(fields);
  LayerBench bench("type: 'LayerNorm' layer_norm_param { " + fields + " }", {{3, 2, 5}});
  check_gradients(bench);
}

TEST_CASE("a GELU's gradient is that of central differences", "[layers][gradient][sequence]") {
  LayerBench bench("type: 'GELU'", {{3, 2, 5}});
  bench.bottoms[0] = spaced_values(30, 3, 0.2F);
  check_gradients(bench);
}

TEST_CASE("attention's gradients are those of central differences",
          "[layers][gradient][sequence]") {
  const std::string fields =
      GENERATE(as<std::string>{}, "num_heads: 2", "num_heads: 4 causal: true",
               "num_heads: 2 causal: true dropout_ratio: 0.4 bias_term: false");
  INFO(fields);
  const std::string definition = "type: 'MultiHeadAttention' attention_param { " + fields + " }";
  SECTION("of all steps") {
    LayerBench bench(definition, {{4, 3, 8}});
    check_gradients(bench);
  }
  SECTION("of steps that a mask leaves") {
    LayerBench bench(definition, {{3, 2, 4}, {3, 2}});
    bench.differentiable[1] = false;
    bench.bottoms[1] = {1, 0, 1, 1, 0, 1};
    check_gradients(bench);
  }
}

TEST_CASE("causal attention sees no later step", "[layers][sequence]") {
  LayerBench bench("type: 'MultiHeadAttention' attention_param { num_heads: 2 causal: true }",
                   {{5, 2, 4}});
  bench.forward();
  const Values before = bench.tops[0];
  for (std::size_t i = 3 * 8; i < 40; ++i) bench.bottoms[0][i] += 1;
  bench.forward();
  CHECK(rows_of(bench.tops[0], 0, 3, 8) == rows_of(before, 0, 3, 8));
  CHECK(rows_of(bench.tops[0], 3, 2, 8) != rows_of(before, 3, 2, 8));
}

TEST_CASE("attention does not see what a mask hides", "[layers][sequence]") {
  LayerBench bench("type: 'MultiHeadAttention' attention_param { num_heads: 2 }",
                   {{3, 1, 4}, {3, 1}});
  bench.bottoms[1] = {1, 1, 0};
  bench.forward();
  const Values before = bench.tops[0];
  for (std::size_t i = 8; i < 12; ++i) bench.bottoms[0][i] += 1;
  bench.forward();
  CHECK(rows_of(bench.tops[0], 0, 2, 4) == rows_of(before, 0, 2, 4));
}

TEST_CASE("an inner product and a softmax loss work along axis 2 of a sequence",
          "[layers][gradient][sequence]") {
  LayerBench product("type: 'InnerProduct' inner_product_param { num_output: 4 axis: 2 }",
                     {{3, 2, 5}});
  CHECK(product.top_shapes[0] == Extents{3, 2, 4});
  check_gradients(product);
  LayerBench loss(
      "type: 'SoftmaxWithLoss' softmax_param { axis: 2 } loss_param { ignore_label: -1 }",
      {{3, 2, 4}, {3, 2}});
  loss.bottoms[1] = {0, 3, -1, 1, 2, -1};
  check_gradients(loss, {.step = 2e-2, .relative = 1e-2, .absolute = 1e-4}, true);
}

TEST_CASE("layers over sequences name the shape or field that cannot work", "[layers][sequence]") {
  const auto [definition, bottoms,
              message] = GENERATE(table<std::string, std::vector<Extents>, std::string>({
      {"type: 'LSTM' recurrent_param { num_output: 3 }",
       {{3, 2, 4, 4}},
       "layer \"tested\" (LSTM): the bottom must be a sequence (T steps x "
       "N streams x C), has shape 3x2x4x4"},
      {"type: 'GRU' recurrent_param { num_output: 3 }",
       {{3, 2, 4}, {2, 3}},
       "layer \"tested\" (GRU): the second bottom (cont markers) has shape 2x3; for a sequence of "
       "3x2x4 it must be 3x2"},
      {"type: 'RNN'",
       {{3, 2, 4}},
       "layer \"tested\" (RNN): recurrent_param.num_output must be at least 1, is missing or 0"},
      {"type: 'LSTM' recurrent_param { num_output: 3 num_layers: 0 }",
       {{3, 2, 4}},
       "layer \"tested\" (LSTM): recurrent_param.num_layers must be at least 1, is missing or 0"},
      {"type: 'LSTM' recurrent_param { num_output: 3 dropout_ratio: 1 }",
       {{3, 2, 4}},
       "layer \"tested\" (LSTM): recurrent_param.dropout_ratio must be in [0, 1), is 1"},
      {"type: 'Embed' embed_param { num_output: 3 }",
       {{3, 2}},
       "layer \"tested\" (Embed): embed_param.input_dim must be at least 1, is missing or 0"},
      {"type: 'Embed' embed_param { num_output: 3 input_dim: 4 }",
       {{3, 2, 1}},
       "layer \"tested\" (Embed): the bottom has shape 3x2x1, but must be numbers of rank 1 or 2 "
       "(N, or T x N)"},
      {"type: 'LayerNorm' layer_norm_param { axis: 3 }", {{3, 2, 4}}, "layer_norm_param.axis"},
      {"type: 'LayerNorm' layer_norm_param { eps: 0 }",
       {{3, 2, 4}},
       "layer \"tested\" (LayerNorm): layer_norm_param.eps must be greater than 0, is 0"},
      {"type: 'LayerNorm'", {{3, 2, 4, 4}}, "must be of rank 1 to 3"},
      {"type: 'MultiHeadAttention' attention_param { num_heads: 3 }",
       {{3, 2, 4}},
       "layer \"tested\" (MultiHeadAttention): attention_param.num_heads is 3, but must divide "
       "the 4 channels"},
      {"type: 'PositionEmbed'", {{3, 2}}, "must be a sequence"},
  }));
  INFO(definition);
  CHECK_THAT(refusal(definition, bottoms), Catch::Matchers::Contains(message));
}
