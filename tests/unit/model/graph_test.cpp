#include "worker/model/graph.hpp"

#include "tests/support/catch.hpp"
#include "tests/unit/model/net_text.hpp"

using namespace taut;
using namespace taut::test;

namespace {

const std::string kLoss =
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
    "  inner_product_param { num_output: 10 } }"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }";

std::vector<std::string> layer_names(const model::Graph& graph) {
  std::vector<std::string> names;
  for (const model::Node& node : graph.nodes) names.push_back(node.definition.name());
  return names;
}

std::vector<std::string> output_names(const model::Graph& graph) {
  std::vector<std::string> names;
  for (const std::size_t blob : graph.outputs) names.push_back(graph.blobs[blob].name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a phase has the layers that its rules let in", "[graph]") {
  const std::string text = kData +
                           "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'a'"
                           "  include { phase: TRAIN } }"
                           "layer { name: 'b' type: 'ReLU' bottom: 'data' top: 'b'"
                           "  exclude { phase: TRAIN } }"
                           "layer { name: 'c' type: 'ReLU' bottom: 'data' top: 'c'"
                           "  include { phase: TRAIN } include { phase: TEST } }"
                           "layer { name: 'd' type: 'ReLU' bottom: 'data' top: 'd' exclude {} }";
  CHECK(layer_names(graph_of(text, pb::TRAIN)) == Names{"in", "a", "c"});
  const model::Graph test = graph_of(text, pb::TEST);
  CHECK(layer_names(test) == Names{"in", "b", "c"});
  CHECK(test.phase == pb::TEST);
  CHECK(test.nodes[1].definition.phase() == pb::TEST);
}

TEST_CASE("bottoms, tops and outputs are linked", "[graph]") {
  const model::Graph graph = graph_of("name: 'n' " + kData + kLoss);
  CHECK(graph.name == "n");
  REQUIRE(graph.nodes.size() == 3);
  CHECK(graph.nodes[1].bottoms == std::vector<std::size_t>{0});
  CHECK(graph.nodes[2].bottoms == std::vector<std::size_t>{2, 1});
  CHECK(graph.nodes[2].tops == std::vector<std::size_t>{3});
  CHECK(graph.nodes[2].loss_weights == std::vector<float>{1});
  CHECK(output_names(graph) == Names{"loss"});
  CHECK(model::label_limits(graph, 1).classes == 10);
}

TEST_CASE("gradients are needed between the first trained parameter and the loss", "[graph]") {
  const std::string text =
      kData +
      "layer { name: 'c1' type: 'Convolution' bottom: 'data' top: 'c1' param { lr_mult: 0 }"
      "  param { lr_mult: 0 } convolution_param { num_output: 2 kernel_size: 1 } }"
      "layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2'"
      "  convolution_param { num_output: 2 kernel_size: 1 } }"
      "layer { name: 'side' type: 'Softmax' bottom: 'c2' top: 'side' }"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'c2' top: 'ip'"
      "  inner_product_param { num_output: 10 } }"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }";
  const model::Graph graph = graph_of(text);
  CHECK(graph.parameters[0].kind == TableKind::kFrozen);
  CHECK(graph.parameters[2].kind == TableKind::kTrained);
  Names needing;
  for (const model::Blob& blob : graph.blobs) {
    if (blob.needs_gradient) needing.push_back(blob.name);
  }
  CHECK(needing == Names{"c2", "ip"});
  Names backward;
  for (const model::Node& node : graph.nodes) {
    if (node.needs_backward) backward.push_back(node.definition.name());
  }
  CHECK(backward == Names{"c2", "ip", "loss"});

  const model::Graph test = graph_of(text, pb::TEST);
  for (const model::Node& node : test.nodes) CHECK_FALSE(node.needs_backward);
}

TEST_CASE("a loss weight of zero stops the gradient", "[graph]") {
  const model::Graph graph = graph_of(
      kData +
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
      "  inner_product_param { num_output: 10 } }"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss'"
      "  loss_weight: 0 }");
  for (const model::Node& node : graph.nodes) CHECK_FALSE(node.needs_backward);
}

TEST_CASE("labels that depend on trained parameters are refused, unless they are taken as given",
          "[graph]") {
  const auto net = [](const std::string& loss, const std::string& lr_mult = "1") {
    const std::string label =
        "layer { name: 'made' type: 'InnerProduct' bottom: 'data' top: 'made' param { lr_mult: " +
        lr_mult + " } param { lr_mult: " + lr_mult + " } inner_product_param { num_output: 1 } }";
    return kData + label +
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
           "  inner_product_param { num_output: 1 } }"
           "layer { name: 'loss' bottom: 'ip' bottom: 'made' top: 'loss' " +
           loss + " }";
  };
  const std::string why =
      "layer \"loss\" (HingeLoss): bottom \"made\" depends on trained parameters, and the type has "
      "no gradient of its bottom 2: name a blob that does not, or take it as given with "
      "propagate_down, once for each bottom and false for this one";
  CHECK(error_of_net(net("type: 'HingeLoss'")) == why);
  CHECK(error_of_net(net("type: 'HingeLoss' propagate_down: true propagate_down: true")) == why);
  // Nothing is trained by it, nothing changes it, or the type has a gradient of it.
  CHECK_FALSE(graph_of(net("type: 'HingeLoss'"), pb::TEST).nodes.empty());
  CHECK_FALSE(graph_of(net("type: 'HingeLoss' loss_weight: 0")).nodes.empty());
  CHECK_FALSE(graph_of(net("type: 'HingeLoss'", "0")).nodes.empty());
  CHECK(graph_of(net("type: 'EuclideanLoss'")).nodes[1].needs_backward);
  const model::Graph given =
      graph_of(net("type: 'HingeLoss' propagate_down: true propagate_down: false"));
  CHECK_FALSE(given.nodes[1].needs_backward);
  CHECK(given.nodes[2].needs_backward);
}

TEST_CASE("a layer works in place where its bottom can be spared", "[graph]") {
  const std::string ip =
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
      "  inner_product_param { num_output: 10 } }";
  const std::string relu = "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }";
  const std::string drop = "layer { name: 'drop' type: 'Dropout' bottom: 'ip' top: 'ip' }";

  const model::Graph chain = graph_of(kData + ip + relu + drop);
  CHECK(chain.blobs.size() == 3);
  CHECK(chain.nodes[2].tops == chain.nodes[2].bottoms);
  CHECK(chain.nodes[3].tops == chain.nodes[1].tops);
  CHECK(output_names(chain) == Names{"label", "ip"});

  SECTION("not where another layer has read it") {
    const model::Graph graph = graph_of(
        kData + ip + "layer { name: 'side' type: 'Softmax' bottom: 'ip' top: 'side' }" + relu);
    CHECK(graph.nodes[3].tops != graph.nodes[3].bottoms);
    CHECK(graph.blobs[graph.nodes[3].tops[0]].name == "ip");
    CHECK(output_names(graph) == Names{"label", "side", "ip"});
  }
  SECTION("not where its maker's gradient needs the values") {
    const model::Graph graph =
        graph_of(kData + ip + "layer { name: 'tanh' type: 'TanH' bottom: 'ip' top: 'ip' }" + drop);
    CHECK(graph.nodes[2].tops == graph.nodes[2].bottoms);
    CHECK(graph.nodes[3].tops != graph.nodes[3].bottoms);
  }
  SECTION("not a Sigmoid, which would hide a ReLU's sign") {
    const model::Graph graph =
        graph_of(kData + ip + relu + "layer { name: 's' type: 'Sigmoid' bottom: 'ip' top: 'ip' }");
    CHECK(graph.nodes[3].tops != graph.nodes[3].bottoms);
  }
  SECTION("not over the data set's batch") {
    const model::Graph graph =
        graph_of(kData + "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'data' }");
    CHECK(graph.nodes[1].tops != graph.nodes[1].bottoms);
  }
}

TEST_CASE("impossible connections are reported", "[graph]") {
  const std::string conv =
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'"
      "  convolution_param { num_output: 2 kernel_size: 1 } }";
  const auto pool = [](const std::string& links) {
    return "layer { name: 'pool1' type: 'Pooling' " + links + " pooling_param { kernel_size: 2 } }";
  };
  CHECK(error_of_net(kData + conv + pool("bottom: 'conv1x' top: 'pool1'")) ==
        "layer \"pool1\" requires bottom \"conv1x\", which no earlier layer produces; did you mean "
        "\"conv1\"?");
  CHECK(error_of_net(kData + pool("bottom: 'conv1' top: 'pool1'") + conv) ==
        "layer \"pool1\" requires bottom \"conv1\", which no earlier layer produces");
  CHECK(error_of_net(kData + conv + pool("bottom: 'data' top: 'conv1'")) ==
        "layer \"pool1\" produces top \"conv1\", which layer \"conv1\" produces already");
  CHECK(error_of_net(kData + conv + pool("bottom: 'conv1' top: 'conv1'")) ==
        "layer \"pool1\" has \"conv1\" as bottom and as top: Pooling does not work in place");
  CHECK(error_of_net(kData + conv + conv) ==
        "layer \"conv1\" (Convolution): a layer with parameters has this name already (type "
        "Convolution): rename one, or give them include rules");
  CHECK(
      error_of_net(kData + kData) ==
      "two data layers of phase TRAIN are named \"in\" (types Data and Data): rename one, or give "
      "them include rules");
  CHECK(error_of_net(kData + "layer { type: 'ReLU' }") ==
        "layer 1 (type \"ReLU\") has no name: its parameters and messages need one");
  CHECK(error_of_net("layer { name: 'a' type: 'ReLU' include {} exclude {} }") ==
        "layer \"a\" has include and exclude rules: give one kind");
}

TEST_CASE("a bottom whose layer is excluded by its rules is reported with them", "[graph]") {
  const std::string relu = "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }";
  const auto data = [](const std::string& rule) {
    return "layer { name: 'in' type: 'Data' top: 'data' data_param { batch_size: 4 } include { " +
           rule + " } }";
  };
  CHECK(error_of_net(data("phase: TEST") + relu) ==
        "layer \"r\" requires bottom \"data\", which no earlier layer produces; layer \"in\" does, "
        "but its "
        "include and exclude rules keep it out of phase TRAIN, level 0, no stage");
  CHECK(error_of_net("state { level: 2 stage: 'a' stage: 'b' }" + data("stage: 'c'") + relu) ==
        "layer \"r\" requires bottom \"data\", which no earlier layer produces; layer \"in\" does, "
        "but its "
        "include and exclude rules keep it out of phase TRAIN, level 2, stage a, b");
}

TEST_CASE("layers without parameters may share a name", "[graph]") {
  const model::Graph graph = graph_of(
      kData +
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
      "  inner_product_param { num_output: 3 } }"
      "layer { name: 'ip' type: 'ReLU' bottom: 'ip' top: 'ip' }"
      "layer { name: 'end' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'one' }"
      "layer { name: 'end' type: 'HingeLoss' bottom: 'ip' bottom: 'label' top: 'two'"
      "  loss_weight: 0 }");
  REQUIRE(graph.nodes.size() == 5);
  REQUIRE(graph.outputs.size() == 2);
  CHECK(graph.blobs[graph.outputs[0]].name == "one");
  CHECK(graph.blobs[graph.outputs[1]].name == "two");
  CHECK(graph.nodes[4].loss_weights == std::vector<float>{0});
  REQUIRE(graph.parameters.size() == 2);
  CHECK(graph.parameters[0].name == "ip/weight");
}

TEST_CASE("a loss without a top gets one", "[graph]") {
  const std::string scores = kData +
                             "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
                             "  inner_product_param { num_output: 3 } }";
  const auto loss = [](const std::string& name, const std::string& rest) {
    return "layer { name: '" + name + "' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' " +
           rest + " }";
  };
  const model::Graph graph = graph_of(scores + loss("end", "loss_weight: 0.5"));
  REQUIRE(graph.outputs.size() == 1);
  CHECK(graph.blobs[graph.outputs[0]].name == "end");
  CHECK(graph.nodes.back().loss_weights == std::vector<float>{0.5F});
  CHECK(graph.nodes.back().definition.top(0) == "end");
  CHECK(graph.nodes[1].needs_backward);

  const model::Graph twice = graph_of(scores + loss("end", "") + loss("end", ""));
  REQUIRE(twice.outputs.size() == 2);
  CHECK(twice.blobs[twice.outputs[1]].name == "end (automatic)");
  CHECK(
      error_of_net(scores + "layer { name: 'a' type: 'Accuracy' bottom: 'ip' bottom: 'label' }") ==
      "layer \"a\" requires 1 to 2 tops, but has 0");
}

TEST_CASE("a loss's own top leaves names to other losses and to later layers", "[graph]") {
  const std::string scores = kData +
                             "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
                             "  inner_product_param { num_output: 3 } }";
  const std::string loss =
      "layer { name: 'end' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' }";
  const model::Graph thrice = graph_of(scores + loss + loss + loss);
  REQUIRE(thrice.outputs.size() == 3);
  CHECK(thrice.blobs[thrice.outputs[0]].name == "end");
  CHECK(thrice.blobs[thrice.outputs[1]].name == "end (automatic)");
  CHECK(thrice.blobs[thrice.outputs[2]].name == "end (automatic 2)");

  const std::string below =
      "layer { name: 'below' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'end' }";
  const model::Graph claimed = graph_of(scores + loss + below);
  REQUIRE(claimed.outputs.size() == 2);
  CHECK(claimed.blobs[claimed.outputs[0]].name == "end (automatic)");
  CHECK(claimed.blobs[claimed.outputs[1]].name == "end");
  // Where that layer has no part in the phase, the name is free.
  const model::Graph other =
      graph_of(scores + loss +
               "layer { name: 'below' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'end'"
               "  include { phase: TEST } }");
  REQUIRE(other.outputs.size() == 1);
  CHECK(other.blobs[other.outputs[0]].name == "end");
}

TEST_CASE("an unsupported type of Caffe's is reported as such", "[graph]") {
  CHECK(error_of_net(one_layer("SPP", "")) ==
        "layer \"l\" is of type \"SPP\", which Caffe has and Tautline does not carry out");
  CHECK(error_of_net("layer { name: 'l' type: 'WindowData' top: 'data' }") ==
        "layer \"l\" is of type \"WindowData\", which is not supported: convert the data to HDF5 "
        "for an "
        "HDF5Data layer, or into an LMDB for a Data layer (tautline convert)");
  CHECK(
      error_of_net("layer { name: 'l' type: 'Python' top: 'data' }") ==
      "layer \"l\" is of type \"Python\", whose code is not run: replace it by layers that do the "
      "same, or compute its top ahead and feed it with an HDF5Data layer");
  CHECK(error_of_net("layers { name: 'm' type: IM2COL top: 'm' }") ==
        "layer \"m\" is of type \"Im2col\", which Caffe has and Tautline does not carry out");
}

TEST_CASE("an unknown type is reported, with the known ones", "[graph]") {
  const std::string unknown = error_of_net(one_layer("Convolutoin", ""));
  CHECK(unknown.find("layer \"l\" is of unknown type \"Convolutoin\"; did you mean "
                     "\"Convolution\"?; known are Data, ") == 0);
  CHECK(unknown.find(", BatchNorm, ") != std::string::npos);
  CHECK(error_of_net("layer { name: 'l' }").find("layer \"l\" has no type; known are Data, ") == 0);
}

TEST_CASE("a wrong number of bottoms or tops is reported", "[graph]") {
  CHECK(error_of_net(kData + "layer { name: 'r' type: 'ReLU' top: 'r' }") ==
        "layer \"r\" requires 1 bottom, but has 0");
  CHECK(error_of_net(kData + "layer { name: 'r' type: 'ReLU' bottom: 'data' }") ==
        "layer \"r\" requires 1 top, but has 0");
  CHECK(error_of_net(one_layer("SoftmaxWithLoss", "")) ==
        "layer \"l\" requires 2 bottoms, but has 1");
  CHECK(error_of_net(kData + "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'data'"
                             "  bottom: 'label' top: 'a' top: 'b' top: 'c' }") ==
        "layer \"l\" requires 1 to 2 tops, but has 3");
}

TEST_CASE("a number of any layer with a gradient is a loss where it is weighted", "[graph]") {
  const std::string sum =
      kData +
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
      "  inner_product_param { num_output: 3 } }"
      "layer { name: 'sum' type: 'Reduction' bottom: 'ip' top: 'sum' loss_weight: 0.5 }"
      "layer { name: 'over' type: 'TanH' bottom: 'sum' top: 'sum' }";
  const model::Graph graph = graph_of(sum);
  CHECK(graph.nodes[2].loss_weights == std::vector<float>{0.5F});
  CHECK(graph.nodes[2].needs_backward);
  CHECK(graph.nodes[1].needs_backward);
  CHECK_FALSE(graph.nodes[3].needs_backward);
  CHECK(graph.blobs[graph.nodes[2].tops[0]].needs_gradient);
  // What is read at the end is not written over.
  CHECK(graph.nodes[3].tops[0] != graph.nodes[2].tops[0]);
}

TEST_CASE("a loss weight on a top that cannot be a loss is reported", "[graph]") {
  const auto end = [](const std::string& type, const std::string& rest) {
    return kData +
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
           "  inner_product_param { num_output: 3 } }"
           "layer { name: 'end' type: '" +
           type + "' bottom: 'ip' bottom: 'label' top: 'end' " + rest + " }";
  };
  CHECK_THAT(error_of_net(one_layer("ReLU", "loss_weight: 2")),
             Catch::Matchers::StartsWith("layer \"l\" (ReLU): loss_weight of top \"out\" is 2: a "
                                         "loss is one number, but the top has shape ") &&
                 Catch::Matchers::EndsWith("; put a Reduction layer after it"));
  CHECK(error_of_net(end("Accuracy", "loss_weight: 1")) ==
        "layer \"end\" (Accuracy): loss_weight of top \"end\" is 1: nothing learns from it, as the "
        "layer has no gradient");
  CHECK(error_of_net(end("SoftmaxWithLoss", "top: 'p' loss_weight: 1 loss_weight: 1")) ==
        "layer \"end\" (SoftmaxWithLoss): loss_weight of top \"p\" is 1: only the first top of a "
        "loss layer can be a loss");
  CHECK(error_of_net(one_layer("ReLU", "loss_weight: 0 loss_weight: 0")) ==
        "layer \"l\" (ReLU): loss_weight is given 2 times for 1 tops");
}

TEST_CASE("a net of very many layers is refused", "[graph]") {
  pb::NetParameter net;
  for (int i = 0; i < 10001; ++i) net.add_layer()->set_name(std::to_string(i));
  const auto graph = model::build_graph(net, {});
  REQUIRE_FALSE(graph.has_value());
  CHECK(graph.error().message == "the net has 10001 layers, the limit is 10000");
}
