#include "worker/model/parameters.hpp"

#include <cmath>

#include "proto/config/settle_filler.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/model/net_text.hpp"

using namespace taut;
using namespace taut::test;
using Kind = math::Filler::Kind;

namespace {

math::Filler filler_of(const std::string& text, const model::Shape& shape) {
  pb::FillerParameter filler;
  REQUIRE(parse_text(text, "filler", filler).has_value());
  return settle_filler(filler, shape).value();
}

std::string filler_error(const std::string& text) {
  return error_of_net(one_layer(
      "InnerProduct", "inner_product_param { num_output: 2 weight_filler { " + text + " } }"));
}

std::string ip(const std::string& name, int outputs, const std::string& rest) {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: 'data' top: '" + name +
         "' inner_product_param { num_output: " + std::to_string(outputs) + " } " + rest + " }";
}

}  // namespace

TEST_CASE("fillers with explicit numbers are used unchanged", "[parameters]") {
  CHECK(filler_of("", {5, 4}) == math::Filler{Kind::kConstant, 0, 0});
  CHECK(filler_of("value: 0.25", {5, 4}) == math::Filler{Kind::kConstant, 0.25F, 0});
  CHECK(filler_of("type: 'uniform' min: -1 max: 2", {5, 4}) == math::Filler{Kind::kUniform, -1, 2});
  CHECK(filler_of("type: 'gaussian' std: 0.01", {5, 4}) == math::Filler{Kind::kGaussian, 0, 0.01F});
}

TEST_CASE("a sparse gaussian takes its outputs from the first extent of any shape",
          "[parameters]") {
  const math::Filler sparse = filler_of("type: 'gaussian' std: 0.5 sparse: 3", {10, 4});
  CHECK(sparse.kind == Kind::kGaussian);
  CHECK(sparse.b == 0.5F);
  CHECK(sparse.sparse == 3);
  CHECK(sparse.outputs == 10);
  CHECK(filler_of("type: 'gaussian' sparse: -1", {10, 4}) ==
        filler_of("type: 'gaussian'", {10, 4}));
  pb::FillerParameter filler;
  REQUIRE(parse_text("type: 'gaussian' sparse: 3", "filler", filler).has_value());
  for (const model::Shape& shape : {model::Shape{10}, model::Shape{10, 4, 3, 3}}) {
    const auto settled = settle_filler(filler, shape);
    REQUIRE(settled.has_value());
    CHECK(settled.value().sparse == 3);
    CHECK(settled.value().outputs == 10);
  }
  const auto refused = settle_filler(filler, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message ==
        "is gaussian with sparse 3, which requires a parameter with an axis of outputs");
}

TEST_CASE("a bilinear filler takes its extent from square kernels", "[parameters]") {
  CHECK(filler_of("type: 'bilinear'", {3, 1, 4, 4}) == math::bilinear(4));
  pb::FillerParameter filler;
  REQUIRE(parse_text("type: 'bilinear'", "filler", filler).has_value());
  for (const model::Shape& shape : {model::Shape{3, 1, 4, 5}, model::Shape{3, 1, 4}}) {
    const auto refused = settle_filler(filler, shape);
    REQUIRE_FALSE(refused.has_value());
    CHECK_THAT(refused.error().message, Catch::Matchers::EndsWith(model::to_string(shape)));
  }
}

TEST_CASE("xavier and msra have Caffe's fans", "[parameters]") {
  // LeNet's conv2, (50, 20, 5, 5): 500 inputs and 1250 outputs.
  const model::Shape conv2{50, 20, 5, 5};
  const math::Filler xavier = filler_of("type: 'xavier'", conv2);
  CHECK(xavier.kind == Kind::kUniform);
  CHECK(xavier.b == Approx(std::sqrt(3.0 / 500)));
  CHECK(xavier.a == -xavier.b);
  CHECK(filler_of("type: 'xavier' variance_norm: FAN_OUT", conv2).b ==
        Approx(std::sqrt(3.0 / 1250)));
  CHECK(filler_of("type: 'xavier' variance_norm: AVERAGE", conv2).b ==
        Approx(std::sqrt(3.0 / 875)));
  const math::Filler msra = filler_of("type: 'msra'", conv2);
  CHECK(msra.kind == Kind::kGaussian);
  CHECK(msra.a == 0);
  CHECK(msra.b == Approx(std::sqrt(2.0 / 500)));
  // ip1, (500, 800), and a bias, which has one axis.
  CHECK(filler_of("type: 'xavier'", {500, 800}).b == Approx(std::sqrt(3.0 / 800)));
  CHECK(filler_of("type: 'msra' variance_norm: FAN_OUT", {500, 800}).b ==
        Approx(std::sqrt(2.0 / 500)));
  CHECK(filler_of("type: 'xavier'", {500}).b == Approx(std::sqrt(3.0)));
}

TEST_CASE("an impossible filler is reported", "[parameters]") {
  const std::string layer = "layer \"l\" (InnerProduct): weight_filler ";
  CHECK(filler_error("type: 'xaver'") ==
        layer +
            "is of unknown type \"xaver\"; did you mean \"xavier\"?; known are constant, "
            "uniform, gaussian, xavier, msra, bilinear");
  CHECK(filler_error("type: 'uniform' min: 2") ==
        layer + "is uniform from 2 to 1: min must not be greater than max");
  CHECK(filler_error("type: 'gaussian' std: -1") ==
        layer + "is gaussian with std -1, which must be at least 0");
  CHECK(filler_error("type: 'gaussian' sparse: -2") ==
        layer + "is gaussian with sparse -2, which must be at least 0, or -1 to keep all weights");
  CHECK_THAT(filler_error("type: 'gaussian' sparse: 3"),
             Catch::Matchers::StartsWith(layer + "is gaussian with sparse 3, but the parameter of "
                                                 "shape 2x") &&
                 Catch::Matchers::EndsWith(" has 2 outputs: no input can keep more weights"));
  CHECK_THAT(filler_error("type: 'bilinear'"),
             Catch::Matchers::StartsWith(layer + "is bilinear, which is for weights of four axes "
                                                 "with square kernels, and the parameter has "
                                                 "shape 2x"));
  CHECK(filler_error("value: nan") == layer + "has the number nan");
}

TEST_CASE("multipliers and names are those of the layer's param", "[parameters]") {
  const model::Graph graph =
      graph_of(kData + ip("a", 2, "param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }") +
               ip("b", 2, "param { name: 'own' lr_mult: 0 }"));
  REQUIRE(graph.parameters.size() == 4);
  CHECK(graph.parameters[1].name == "a/bias");
  CHECK(graph.parameters[1].id == TableId(1));
  CHECK(graph.parameters[1].lr_mult == 2);
  CHECK(graph.parameters[1].decay_mult == 0);
  CHECK(graph.parameters[1].kind == TableKind::kTrained);
  CHECK(graph.parameters[2].name == "own");
  CHECK(graph.parameters[2].kind == TableKind::kFrozen);
  CHECK(graph.parameters[3].name == "b/bias");
  CHECK(graph.parameters[3].lr_mult == 1);
}

TEST_CASE("layers that give one name share a table", "[parameters]") {
  const model::Graph graph = graph_of(kData + ip("a", 2, "param { name: 'w' lr_mult: 3 }") +
                                      ip("b", 2, "param { name: 'w' }"));
  REQUIRE(graph.parameters.size() == 3);
  CHECK(graph.nodes[1].parameters == std::vector<std::size_t>{0, 1});
  CHECK(graph.nodes[2].parameters == std::vector<std::size_t>{0, 2});
  CHECK(graph.parameters[0].lr_mult == 3);

  const std::string first = kData + ip("a", 2, "param { name: 'w' }");
  CHECK(error_of_net(first + ip("b", 5, "param { name: 'w' }")) ==
        "layer \"b\" (InnerProduct): parameter \"w\" is shared: it has shape 2x144 in an earlier "
        "layer, but 5x144 here");
  CHECK(error_of_net(first + ip("b", 2, "param { name: 'w' lr_mult: 2 }")) ==
        "layer \"b\" (InnerProduct): parameter \"w\" is shared: its lr_mult is 1 in an earlier "
        "layer, but 2 here");
  CHECK(error_of_net(first + ip("b", 2, "param { name: 'w' decay_mult: 2 }")) ==
        "layer \"b\" (InnerProduct): parameter \"w\" is shared: its decay_mult is 1 in an earlier "
        "layer, but 2 here");
}

TEST_CASE("impossible params are reported", "[parameters]") {
  CHECK(error_of_net(kData + ip("a", 2, "param {} param {} param {}")) ==
        "layer \"a\" (InnerProduct): param is given 3 times, but the layer has 2 parameters");
  CHECK(error_of_net(kData + ip("a", 2, "param { lr_mult: -1 }")) ==
        "layer \"a\" (InnerProduct): lr_mult of parameter \"a/weight\" must be at least 0, is -1");
  CHECK(error_of_net(kData + ip("a", 2, "param { decay_mult: inf }")) ==
        "layer \"a\" (InnerProduct): decay_mult of parameter \"a/weight\" must be at least 0, is "
        "inf");
}
