// What the backend is told of where sequences may begin: fused kernels know no reset between two
// steps.
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"
#include "worker/engine/plan/wrapped_backend.hpp"
#include "worker/layers/net.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// The CPU, and what was promised of each recurrent layer's markers.
class Listener final : public WrappedBackend {
 public:
  using WrappedBackend::allocate;
  using WrappedBackend::WrappedBackend;

  DeviceBuffer allocate(Bytes size, BufferKind kind, std::string_view name) override {
    return inner().allocate(size, kind, name);
  }
  void on_call(Stream& stream, DeviceCall call) override {
    std::vector<std::byte*> places;
    for (const Operand& operand : call.operands) places.push_back(operand.address);
    call.run(stream, places);
  }
  std::unique_ptr<DeviceOp> make_op(OpSpec spec) override {
    if (const auto* const* one = std::get_if<const RecurrentSpec*>(&spec)) specs.push_back(**one);
    return WrappedBackend::make_op(spec);
  }

  std::vector<RecurrentSpec> specs;
};

const std::string kText =
    "layer { name: 'text' type: 'Data' top: 'units' top: 'next' top: 'cont' top: 'mask'"
    "  data_param { batch_size: 2 backend: TEXT } text_param { steps: 3 } }"
    "layer { name: 'embed' type: 'Embed' bottom: 'units' top: 'embed'"
    "  embed_param { input_dim: 5 num_output: 4 } }";

std::string lstm(const std::string& more) {
  return "layer { name: 'lstm' type: 'LSTM' bottom: 'embed' " + more +
         " top: 'lstm' recurrent_param { num_output: 3 num_layers: 2 } }";
}

std::vector<RecurrentSpec> specs_in(const std::string& net) {
  const RecordField each{.shape = {3}, .batch_axis = 1};
  const auto host = cpu();
  Listener listener(*host);
  const Net built(settle(net, pb::TRAIN, {.record = {each, each, each, each}}), listener, {});
  return listener.specs;
}

std::vector<Resets> resets_in(const std::string& net) {
  std::vector<Resets> all;
  for (const RecurrentSpec& spec : specs_in(net)) all.push_back(spec.resets);
  return all;
}

using All = std::vector<Resets>;

}  // namespace

TEST_CASE("without markers no sequence starts within a batch", "[layers][sequence]") {
  CHECK(resets_in(kText + lstm("")) == All{Resets::kAtStart, Resets::kAtStart});
}

TEST_CASE("a text's markers start sequences only at a batch's first step", "[layers][sequence]") {
  CHECK(resets_in(kText + lstm("bottom: 'cont'")) == All{Resets::kAtStart, Resets::kAtStart});
}

TEST_CASE("markers from other sources may start sequences anywhere", "[layers][sequence]") {
  const All anywhere{Resets::kAnywhere, Resets::kAnywhere};
  SECTION("an input's") {
    const std::string input =
        "layer { name: 'in' type: 'Input' top: 'own' input_param { shape { dim: 3 dim: 2 } } }";
    CHECK(resets_in(kText + input + lstm("bottom: 'own'")) == anywhere);
  }
  SECTION("another of the text's tops") {
    CHECK(resets_in(kText + lstm("bottom: 'mask'")) == anywhere);
  }
  SECTION("a text's that a layer has worked over") {
    const std::string over = "layer { name: 'over' type: 'ReLU' bottom: 'cont' top: 'cont' }";
    CHECK(resets_in(kText + over + lstm("bottom: 'cont'")) == anywhere);
  }
}

TEST_CASE("a static bottom is announced to the first layer, exposed states to all",
          "[layers][sequence]") {
  const auto input = [](const std::string& name, const std::string& shape) {
    return "layer { name: '" + name + "' type: 'Input' top: '" + name + "' input_param { shape { " +
           shape + " } } }";
  };
  const auto plain = specs_in(kText + lstm("bottom: 'cont'"));
  REQUIRE(plain.size() == 2);
  for (const RecurrentSpec& spec : plain) CHECK_FALSE((spec.constant || spec.state_gradient));

  const auto fixed =
      specs_in(kText + input("fixed", "dim: 2 dim: 4") + lstm("bottom: 'cont' bottom: 'fixed'"));
  REQUIRE(fixed.size() == 2);
  CHECK(fixed[0].constant);
  CHECK_FALSE((fixed[1].constant || fixed[0].state_gradient || fixed[1].state_gradient));

  const std::string states = "dim: 2 dim: 2 dim: 3";
  const auto exposed = specs_in(
      kText + input("h0", states) + input("c0", states) +
      "layer { name: 'lstm' type: 'LSTM' bottom: 'embed' bottom: 'cont' bottom: 'h0' bottom: 'c0'"
      "  top: 'lstm' top: 'h' top: 'c'"
      "  recurrent_param { num_output: 3 num_layers: 2 expose_hidden: true } }");
  REQUIRE(exposed.size() == 2);
  for (const RecurrentSpec& spec : exposed) CHECK((spec.state_gradient && !spec.constant));
}
