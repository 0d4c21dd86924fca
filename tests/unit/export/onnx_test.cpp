#include <fmt/format.h>

#include <cstring>
#include <map>
#include <numeric>
#include <sstream>

#include "common/files/file.hpp"
#include "proto/formats/onnx/model_file.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/model/net_text.hpp"
#include "worker/export/onnx/layer_operators.hpp"
#include "worker/export/onnx/translate_net.hpp"
#include "worker/model/rules/layer_rule.hpp"

using namespace taut;
using namespace taut::onnx;
using Catch::Matchers::Contains;
using taut::test::TempFolder;

namespace {

constexpr std::int64_t kOwnBatch = 4;

/// Translates a net of images of 3 x 8 x 6.
Result<OnnxNet> translated(const std::string& text, std::int64_t batch = 0) {
  const pb::NetParameter net = test::net_of(text);
  const auto build = [&](std::int64_t records) {
    return model::build_graph(net, {.phase = pb::TEST, .record = test::kRecord, .batch = records});
  };
  return translate_net(build, batch);
}

/// Tables whose elements are 1000 times their number, plus their own.
Result<void> read_counted(std::size_t table, std::uint64_t first, std::span<float> out) {
  std::iota(out.begin(), out.end(), static_cast<float>(1000 * table + first));
  return ok();
}

/// The net as the file's reader sees it.
ModelProto written(const OnnxNet& net) {
  const TempFolder folder;
  const auto path = folder.path() / "net.onnx";
  std::vector<StreamedTensor> tensors;
  for (const ParameterTensor& parameter : net.parameters) {
    tensors.push_back(
        {parameter.name, parameter.dims, [&parameter](std::uint64_t first, std::span<float> out) {
           return parameter.numbers(read_counted, first, out);
         }});
  }
  const auto done = write_model(path, net.graph, tensors);
  INFO((done ? std::string() : done.error().message));
  REQUIRE(done.has_value());
  ModelProto model;
  REQUIRE(model.ParseFromString(read_file(path, Bytes(1 << 24)).value()));
  return model;
}

/// "data Nx3x8x6".
std::string text_of(const ValueInfoProto& value) {
  std::string text = value.name();
  char before = ' ';
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    text += before + (dim.has_dim_value()   ? std::to_string(dim.dim_value())
                      : dim.has_dim_param() ? dim.dim_param()
                                            : std::string("?"));
    before = 'x';
  }
  return text;
}

/// The operators of a graph, "Gemm Relu".
std::string operators_of(const GraphProto& graph) {
  std::string text;
  for (const NodeProto& node : graph.node()) {
    text += (text.empty() ? "" : " ") + node.op_type();
  }
  return text;
}

std::vector<float> floats_of(const GraphProto& graph, const std::string& name) {
  for (const TensorProto& tensor : graph.initializer()) {
    if (tensor.name() != name) continue;
    CHECK(tensor.data_type() == TensorProto::FLOAT);
    std::vector<float> values(tensor.raw_data().size() / sizeof(float));
    std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
    return values;
  }
  FAIL("no constant " << name);
  return {};
}

const std::string kScores =
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { "
    "num_output: 2 } }\n";
const std::string kLoss =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

}  // namespace

TEST_CASE("every type of layer that computes has operators in ONNX", "[onnx]") {
  // The error of an unknown type lists the known ones.
  const auto unknown = model::find_rule("no type");
  REQUIRE_FALSE(unknown.has_value());
  const std::string& message = unknown.error().message;
  std::istringstream types(message.substr(message.find("known are ") + 10));
  std::vector<std::string> missing;
  int count = 0;
  for (std::string type; types >> type; ++count) {
    if (type.back() == ',') type.pop_back();
    const auto rule = model::find_rule(type);
    REQUIRE(rule.has_value());
    if (!rule.value()->is_fed && find_operators(type) == nullptr) missing.push_back(type);
  }
  CHECK(count > 50);
  CHECK(missing == std::vector<std::string>());
}

TEST_CASE("a file has the net's operators, inputs, outputs and parameters", "[onnx]") {
  const auto net = translated(test::kData + kScores + kLoss +
                              "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }\n"
                              "layer { name: 'chances' type: 'Softmax' bottom: 'ip' top: 'p' }\n");
  REQUIRE(net.has_value());
  CHECK(net.value().any_batch);
  const ModelProto model = written(net.value());
  CHECK(model.ir_version() == kIrVersion);
  REQUIRE(model.opset_import_size() == 1);
  CHECK(model.opset_import(0).version() == kOperatorSet);
  CHECK(model.producer_name() == "tautline");
  const GraphProto& graph = model.graph();
  CHECK(operators_of(graph) == "Flatten Gemm Relu Softmax");
  REQUIRE(graph.input_size() == 1);  // not the labels
  CHECK(text_of(graph.input(0)) == "data Nx3x8x6");
  REQUIRE(graph.output_size() == 1);
  CHECK(text_of(graph.output(0)) == "p Nx2");
  std::vector<float> weights(2 * 144);
  std::iota(weights.begin(), weights.end(), 0.0F);
  CHECK(floats_of(graph, "ip/weight") == weights);
  CHECK(floats_of(graph, "ip/bias") == std::vector<float>{1000, 1001});
  // Each value is written before it is read.
  std::map<std::string, int> written_by{{"data", 0}};
  for (const TensorProto& constant : graph.initializer()) written_by[constant.name()] = 0;
  for (const NodeProto& node : graph.node()) {
    for (const std::string& input : node.input()) CHECK(written_by.contains(input));
    for (const std::string& output : node.output()) CHECK(written_by.emplace(output, 0).second);
  }
}

TEST_CASE("a batch is fixed on request, or where a layer depends on it", "[onnx]") {
  const auto fixed = translated(test::kData + kScores, 7);
  REQUIRE(fixed.has_value());
  CHECK_FALSE(fixed.value().any_batch);
  CHECK(text_of(fixed.value().graph.input(0)) == "data 7x3x8x6");
  const auto depends = translated(
      test::kData + kScores +
      fmt::format("layer {{ name: 'r' type: 'Reshape' bottom: 'ip' top: 'r' reshape_param {{ "
                  "shape {{ dim: {} }} }} }}\n",
                  kOwnBatch * 2));
  REQUIRE(depends.has_value());
  CHECK_FALSE(depends.value().any_batch);
  CHECK(text_of(depends.value().graph.output(0)) == "r 8");
}

TEST_CASE("poolings get the padding that Caffe's windows need", "[onnx]") {
  const auto net = translated(
      test::kData +
      "layer { name: 'm' type: 'Pooling' bottom: 'data' top: 'm' pooling_param { pool: MAX "
      "kernel_size: 3 stride: 2 } }\n"
      "layer { name: 'a' type: 'Pooling' bottom: 'data' top: 'a' pooling_param { pool: AVE "
      "kernel_size: 3 stride: 2 pad: 1 } }\n");
  REQUIRE(net.has_value());
  const GraphProto& graph = net.value().graph;
  CHECK(operators_of(graph) == "MaxPool AveragePool Mul");
  const auto pads = [&](int node) {
    for (const AttributeProto& attribute : graph.node(node).attribute()) {
      if (attribute.name() == "pads") {
        return std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
      }
    }
    return std::vector<std::int64_t>();
  };
  // 8 x 6 gives 4 x 3 windows, the last of which end one row and one column behind the image.
  CHECK(pads(0) == std::vector<std::int64_t>{0, 0, 1, 1});
  // With a pad of 1, 5 x 4 windows; the last ones end 2 behind the image, of which 1 counts.
  CHECK(pads(1) == std::vector<std::int64_t>{1, 1, 2, 2});
}

TEST_CASE("gates are in ONNX's order, and the second biases of an LSTM are 0", "[onnx]") {
  const std::string text =
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 2 dim: 1 } } "
      "}\nlayer { name: 'l' type: '%s' bottom: 'x' top: 'l' recurrent_param { num_output: 1 } }\n";
  const auto of = [&](const std::string& type) {
    std::string own = text;
    own.replace(own.find("%s"), 2, type);
    auto net = translated(own);
    REQUIRE(net.has_value());
    return written(net.value()).graph();
  };
  const GraphProto lstm = of("LSTM");
  CHECK(operators_of(lstm) == "LSTM Squeeze Squeeze Identity");
  CHECK(floats_of(lstm, "l/W") == std::vector<float>{0, 2, 1, 3});
  CHECK(floats_of(lstm, "l/R") == std::vector<float>{2000, 2002, 2001, 2003});
  CHECK(floats_of(lstm, "l/bias") == std::vector<float>{1000, 1002, 1001, 1003, 0, 0, 0, 0});
  const GraphProto gru = of("GRU");
  CHECK(floats_of(gru, "l/W") == std::vector<float>{1, 0, 2});
  CHECK(floats_of(gru, "l/bias") == std::vector<float>{1001, 1000, 1002, 3001, 3000, 3002});
}

TEST_CASE("a net without an output is refused", "[onnx]") {
  const auto net = translated(test::kData + "layer { name: 's' type: 'Silence' bottom: 'data' }\n");
  REQUIRE_FALSE(net.has_value());
  CHECK_THAT(net.error().message, Contains("no layer that computes an output"));
}

TEST_CASE("an ONNX file beyond protobuf's limit is refused", "[onnx]") {
  const TempFolder folder;
  const auto done =
      write_model(folder.path() / "x.onnx", GraphProto(), {{"w", {1 << 15, 1 << 15}, {}}});
  REQUIRE_FALSE(done.has_value());
  CHECK_THAT(done.error().message, Contains("x.onnx") && Contains(".safetensors"));
  CHECK(std::filesystem::is_empty(folder.path()));
}
