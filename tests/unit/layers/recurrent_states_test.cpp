#include <cmath>
#include <exception>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/gradient_check.hpp"

using namespace taut;
using namespace taut::test;

// Recurrent layers whose states are bottoms and tops, and those with a bottom that is constant over
// time.
namespace {

std::string recurrent(const std::string& type, const std::string& fields) {
  return "type: '" + type + "' recurrent_param { " + fields + " }";
}

std::size_t states_of(const std::string& type) {
  return type == "LSTM" ? 2 : 1;
}

/// x, cont, x_static where `constant` is not empty, and the states.
std::vector<Extents> with_states(const std::string& type, std::int64_t steps,
                                 const Extents& constant, const Extents& state) {
  std::vector<Extents> shapes{{steps, state[1], 2}, {steps, state[1]}};
  if (!constant.empty()) shapes.push_back(constant);
  shapes.insert(shapes.end(), states_of(type), state);
  return shapes;
}

LayerBench::Setup tops_of(const std::string& type, std::vector<std::size_t> unread = {}) {
  return {.tops = static_cast<int>(1 + states_of(type)), .unread = std::move(unread)};
}

/// Rows [first, first + count) of a blob whose outermost extent has rows of `width` elements.
Values rows_of(const Values& values, std::size_t first, std::size_t count, std::size_t width) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * width)};
}

Values sum_of(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  Values sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

void check_close(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-5));
}

std::string refusal(const std::string& definition, const std::vector<Extents>& bottoms, int tops) {
  try {
    LayerBench bench(definition, bottoms, {.tops = tops});
  } catch (const std::exception& refused) {
    return refused.what();
  }
  return "";
}

}  // namespace

TEST_CASE("gradients flow into the start states of a recurrent layer",
          "[layers][gradient][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  const std::string fields =
      GENERATE(as<std::string>{}, "", "last_step: true", "dropout_ratio: 0.3");
  const std::int64_t layers = GENERATE(1, 2);
  INFO(type << " " << fields << ", layers: " << layers);
  LayerBench bench(recurrent(type, "num_output: 3 expose_hidden: true num_layers: " +
                                       std::to_string(layers) + " " + fields),
                   with_states(type, 3, {}, {layers, 2, 3}), tops_of(type));
  REQUIRE_FALSE(bench.differentiable[1]);
  for (std::size_t i = 0; i < states_of(type); ++i) {
    REQUIRE(bench.differentiable[2 + i]);
    REQUIRE(bench.top_shapes[1 + i] == Extents{layers, 2, 3});
  }
  bench.bottoms[1] = {1, 1, 1, 0, 0, 1};
  check_gradients(bench);
}

TEST_CASE("a marker of 0 at the first step ignores the start state", "[layers][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  LayerBench bench(recurrent(type, "num_output: 3 expose_hidden: true"),
                   with_states(type, 2, {}, {1, 2, 3}), tops_of(type));
  bench.bottoms[1] = {0, 1, 1, 1};
  bench.forward();
  bench.backward();
  const Values kept = rows_of(bench.tops[0], 1, 1, 3);
  CHECK(rows_of(bench.bottom_gradients[2], 0, 1, 3) == Values(3, 0.0F));
  CHECK(rows_of(bench.bottom_gradients[2], 1, 1, 3) != Values(3, 0.0F));
  const Values before = bench.tops[0];
  for (std::size_t i = 0; i < 3; ++i) bench.bottoms[2][i] += 1;
  bench.forward();
  CHECK(bench.tops[0] == before);
  for (std::size_t i = 3; i < 6; ++i) bench.bottoms[2][i] += 1;
  bench.forward();
  CHECK(rows_of(bench.tops[0], 1, 1, 3) != kept);
}

TEST_CASE("gradients flow into a bottom that is constant over time",
          "[layers][gradient][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  const std::string fields =
      GENERATE(as<std::string>{}, "num_output: 3", "num_output: 2 num_layers: 2");
  const Extents constant = GENERATE(Extents{2, 3}, Extents{2, 2, 1, 2});
  INFO(type << " " << fields);
  SECTION("with a state of the layer's own") {
    LayerBench bench(recurrent(type, fields), {{3, 2, 2}, {3, 2}, constant});
    REQUIRE(bench.differentiable[2]);
    bench.bottoms[1] = {0, 0, 1, 1, 0, 1};
    check_gradients(bench);
  }
  SECTION("with states that are bottoms") {
    const Extents state{fields.find("num_layers") == std::string::npos ? 1 : 2, 2,
                        fields.find('3') == std::string::npos ? 2 : 3};
    LayerBench bench(recurrent(type, fields + " expose_hidden: true"),
                     with_states(type, 3, constant, state), tops_of(type));
    bench.bottoms[1] = {1, 1, 0, 1, 1, 1};
    check_gradients(bench);
  }
}

TEST_CASE("a constant bottom counts at every step, as further features of x would",
          "[layers][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  LayerBench constant(recurrent(type, "num_output: 3"), {{3, 2, 2}, {3, 2}, {2, 2}});
  constant.bottoms[1] = {0, 0, 1, 1, 0, 1};
  LayerBench wide(recurrent(type, "num_output: 3"), {{3, 2, 4}, {3, 2}});
  wide.bottoms[1] = constant.bottoms[1];
  for (std::size_t i = 0; i < 24; ++i) {
    const std::size_t row = i / 4;
    wide.bottoms[0][i] = i % 4 < 2 ? constant.bottoms[0][2 * row + i % 4]
                                   : constant.bottoms[2][2 * (row % 2) + i % 4 - 2];
  }
  REQUIRE(constant.parameter_shapes[2] == Extents{constant.parameter_shapes[0][0], 2});
  for (std::size_t i = 0; i < wide.parameters[0].size(); ++i) {
    const std::size_t from = i % 4 < 2 ? 0 : 2;
    wide.parameters[0][i] = constant.parameters[from][2 * (i / 4) + i % 4 - from];
  }
  wide.parameters[1] = constant.parameters[1];
  for (std::size_t i = 2; i < wide.parameters.size(); ++i) {
    wide.parameters[i] = constant.parameters[i + 1];
  }
  constant.forward();
  wide.forward();
  check_close(constant.tops[0], wide.tops[0]);
}

TEST_CASE("two batches that hand on their states and gradients are one long batch",
          "[layers][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  const std::size_t states = states_of(type);
  const std::string definition = recurrent(type, "num_output: 3 num_layers: 2 expose_hidden: true");
  LayerBench whole(definition, with_states(type, 6, {2, 2}, {2, 2, 3}), tops_of(type));
  whole.bottoms[1] = {1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1};
  whole.forward();
  whole.backward();

  LayerBench first(definition, with_states(type, 3, {2, 2}, {2, 2, 3}), tops_of(type));
  LayerBench second(definition, with_states(type, 3, {2, 2}, {2, 2, 3}), tops_of(type));
  std::size_t begin = 0;
  for (LayerBench* half : {&first, &second}) {
    half->parameters = whole.parameters;
    half->bottoms[0] = rows_of(whole.bottoms[0], begin, 3, 4);
    half->bottoms[1] = rows_of(whole.bottoms[1], begin, 3, 2);
    half->bottoms[2] = whole.bottoms[2];
    half->top_gradients[0] = rows_of(whole.top_gradients[0], begin, 3, 6);
    begin += 3;
  }
  for (std::size_t i = 0; i < states; ++i) first.bottoms[3 + i] = whole.bottoms[3 + i];
  first.forward();
  for (std::size_t i = 0; i < states; ++i) second.bottoms[3 + i] = first.tops[1 + i];
  second.forward();
  for (std::size_t i = 0; i < states; ++i) {
    check_close(second.tops[1 + i], whole.tops[1 + i]);
    second.top_gradients[1 + i] = whole.top_gradients[1 + i];
  }
  check_close(first.tops[0], rows_of(whole.tops[0], 0, 3, 6));
  check_close(second.tops[0], rows_of(whole.tops[0], 3, 3, 6));

  second.backward();
  for (std::size_t i = 0; i < states; ++i) {
    first.top_gradients[1 + i] = second.bottom_gradients[3 + i];
  }
  first.backward();
  check_close(first.bottom_gradients[0], rows_of(whole.bottom_gradients[0], 0, 3, 4));
  check_close(second.bottom_gradients[0], rows_of(whole.bottom_gradients[0], 3, 3, 4));
  check_close(sum_of(first.bottom_gradients[2], second.bottom_gradients[2]),
              whole.bottom_gradients[2]);
  for (std::size_t i = 0; i < states; ++i) {
    check_close(first.bottom_gradients[3 + i], whole.bottom_gradients[3 + i]);
  }
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    INFO("parameter " << i);
    check_close(sum_of(first.parameter_gradients[i], second.parameter_gradients[i]),
                whole.parameter_gradients[i]);
  }
}

TEST_CASE("states that are bottoms are not carried from batch to batch", "[layers][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  LayerBench bench(recurrent(type, "num_output: 3 expose_hidden: true"),
                   with_states(type, 3, {}, {1, 2, 3}), tops_of(type));
  bench.bottoms[1].assign(6, 1.0F);
  bench.forward();
  const std::vector<Values> first = bench.tops;
  bench.forward();
  CHECK(bench.tops == first);
}

TEST_CASE("a loss may read only the last state, or only the output",
          "[layers][gradient][sequence]") {
  const std::string type = GENERATE("RNN", "LSTM", "GRU");
  const std::string fields = GENERATE(as<std::string>{}, "", "num_layers: 2", "last_step: true",
                                      "output_transform: false");
  const std::size_t unread = GENERATE(0U, 1U);
  INFO(type << " " << fields << ", unread: " << unread);
  const std::int64_t layers = fields == "num_layers: 2" ? 2 : 1;
  LayerBench bench(recurrent(type, "num_output: 3 expose_hidden: true " + fields),
                   with_states(type, 3, {}, {layers, 2, 3}), tops_of(type, {unread}));
  bench.bottoms[1].assign(6, 1.0F);
  check_gradients(bench);
}

TEST_CASE("a recurrent layer names the state or constant bottom that cannot work",
          "[layers][sequence]") {
  const auto [definition, bottoms, tops,
              message] = GENERATE(table<std::string, std::vector<Extents>, int, std::string>({
      {"type: 'LSTM' recurrent_param { num_output: 3 }",
       {{4, 2, 3}, {4, 2}, {3, 5}},
       1,
       "layer \"tested\" (LSTM): bottom \"b2\" (x_static) has shape 3x5; for a sequence of "
       "4x2x3 it must be 2 x features"},
      {"type: 'GRU' recurrent_param { num_output: 3 }",
       {{4, 2, 3}, {4, 2}, {2}},
       1,
       "layer \"tested\" (GRU): bottom \"b2\" (x_static) has shape 2; for a sequence of 4x2x3 "
       "it must be 2 x features"},
      {"type: 'LSTM' recurrent_param { num_output: 5 expose_hidden: true }",
       {{4, 2, 3}, {4, 2}, {1, 2, 5}, {1, 2, 3}},
       3,
       "layer \"tested\" (LSTM): bottom \"b3\" (c_0) has shape 1x2x3; for a sequence of 4x2x3 "
       "it must be 1x2x5"},
      {"type: 'RNN' recurrent_param { num_output: 5 expose_hidden: true num_layers: 2 }",
       {{4, 2, 3}, {4, 2}, {2, 7}, {1, 2, 5}},
       2,
       "layer \"tested\" (RNN): bottom \"b3\" (h_0) has shape 1x2x5; for a sequence of 4x2x3 "
       "it must be 2x2x5"},
      {"type: 'LSTM' recurrent_param { num_output: 3 expose_hidden: true }",
       {{4, 2, 3}, {4, 2}, {1, 2, 3}},
       3,
       "layer \"tested\" (LSTM): requires 4 to 5 bottoms (with expose_hidden: x, cont, maybe "
       "x_static, h_0, c_0), but has 3"},
      {"type: 'GRU' recurrent_param { num_output: 3 }",
       {{4, 2, 3}, {4, 2}, {2, 3}, {1, 2, 3}},
       1,
       "layer \"tested\" (GRU): requires 1 to 3 bottoms (x, cont, x_static; states only with "
       "expose_hidden), but has 4"},
      {"type: 'GRU' recurrent_param { num_output: 3 }",
       {{4, 2, 3}},
       2,
       "layer \"tested\" (GRU): requires 1 top (states only with expose_hidden), but has 2"},
      {"type: 'LSTM' recurrent_param { num_output: 3 expose_hidden: true }",
       {{4, 2, 3}, {4, 2}, {1, 2, 3}, {1, 2, 3}},
       2,
       "layer \"tested\" (LSTM): requires 3 tops (with expose_hidden: the output, h_T, c_T), but "
       "has 2"},
  }));
  INFO(definition);
  CHECK_THAT(refusal(definition, bottoms, tops), Catch::Matchers::Contains(message));
}
