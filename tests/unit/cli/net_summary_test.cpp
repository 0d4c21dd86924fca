#include "cli/views/net_summary.hpp"

#include <nlohmann/json.hpp>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using Catch::Matchers::Contains;

namespace {

model::Graph graph_of(const std::string& text) {
  pb::NetParameter net;
  REQUIRE(parse_text(text, "net", net).has_value());
  auto graph = model::build_graph(net, {.phase = pb::TRAIN});
  INFO((graph ? std::string() : graph.error().message));
  REQUIRE(graph.has_value());
  return std::move(graph.value());
}

const std::string kNet =
    "name: 'tiny' layer { name: 'in' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: "
    "256 dim: 64 dim: 112 dim: 112 } } }"
    "layer { name: 'inception_4e/a_name_that_is_much_too_long_for_its_column/3x3_reduce' "
    "type: 'Convolution' bottom: 'data' top: 'c' convolution_param { num_output: 64 kernel_size: 3 "
    "pad: 1 } }"
    "layer { name: 'norm' type: 'BatchNorm' bottom: 'c' top: 'n' }";

}  // namespace

TEST_CASE("a net's summary fits 100 columns and ends with its totals", "[summary]") {
  const auto lines = cli::net_summary(graph_of(kNet));
  std::string text;
  for (const std::string& line : lines) {
    CHECK(line.size() <= 100);
    text += line + "\n";
  }
  CHECK_THAT(text, Contains("net tiny, phase TRAIN\n") && Contains("256x64x112x112") &&
                       Contains("inception_4e/") && Contains("36,928"));
  CHECK_THAT(text, Contains("parameters: 36,928, and 129 running statistics; 5 tables\n"));
  CHECK_THAT(text, Contains("one forward pass: 118 G multiply-adds (237 G FLOPs)\n"));
  CHECK_THAT(text, Contains(" MiB for training, ") && Contains(" MiB for inference\n"));
}

TEST_CASE("a net's summary as JSON holds the same numbers whole", "[summary]") {
  const auto json = nlohmann::json::parse(cli::net_summary_json(graph_of(kNet)));
  CHECK(json["net"] == "tiny");
  CHECK(json["parameters"] == 36'928);
  CHECK(json["statistics"] == 129);
  CHECK(json["multiply_adds"] == 256ULL * 64 * 112 * 112 * 576);
  REQUIRE(json["layers"].size() == 3);
  CHECK(json["layers"][1]["tops"][0]["shape"] == nlohmann::json({256, 64, 112, 112}));
}
