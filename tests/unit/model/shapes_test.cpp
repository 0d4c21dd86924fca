#include "tests/support/catch.hpp"
#include "tests/unit/model/net_text.hpp"
#include "worker/model/rules/window.hpp"

using namespace taut;
using namespace taut::test;

namespace {

std::string out_shape(const std::string& type, const std::string& rest) {
  return shape_of(graph_of(one_layer(type, rest)), "out");
}

std::string conv(const std::string& fields) {
  return out_shape("Convolution", "convolution_param { num_output: 6 " + fields + " }");
}
std::string conv_error(const std::string& fields) {
  return error_of_net(one_layer("Convolution", "convolution_param { " + fields + " }"));
}
std::string pool(const std::string& fields) {
  return out_shape("Pooling", "pooling_param { " + fields + " }");
}
std::string pool_error(const std::string& fields) {
  return error_of_net(one_layer("Pooling", "pooling_param { " + fields + " }"));
}

/// Positions of a pooling window along one side.
std::int64_t pooled(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return model::pooling_extent(size, {.kernel = kernel, .stride = stride, .pad = pad}, "height")
      .value();
}

const std::string kTwo =
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
    "  inner_product_param { num_output: 10 } }";

}  // namespace

TEST_CASE("a shape is printed and counted", "[shapes]") {
  CHECK(model::to_string({64, 1, 28, 28}) == "64x1x28x28");
  CHECK(model::to_string({}) == "scalar");
  CHECK(model::element_count({64, 1, 28, 28}) == 50176);
  CHECK(model::element_count({}) == 1);
}

TEST_CASE("a Data layer produces batches of the data set's records", "[shapes]") {
  const model::Graph graph = graph_of(kData);
  CHECK(shape_of(graph, "data") == "4x3x8x6");
  CHECK(shape_of(graph, "label") == "4");
  const auto wide =
      model::build_graph(net_of(kData), {.phase = pb::TRAIN, .record = kRecord, .batch = 32});
  REQUIRE(wide.has_value());
  CHECK(shape_of(wide.value(), "data") == "32x3x8x6");
  CHECK(error_of_net("layer { name: 'in' type: 'Data' top: 'data' }") ==
        "layer \"in\" (Data): data_param.batch_size is missing");
  CHECK(error_of_net("layer { name: 'in' type: 'Data' top: 'd' data_param { batch_size: 1 }"
                     "  transform_param { mean_value: 1 mean_value: 2 } }") ==
        "layer \"in\" (Data): transform_param.mean_value is given 2 times, but the records have 3 "
        "channels");
  const auto unknown =
      model::build_graph(net_of(kData), {.phase = pb::TRAIN, .record = {}, .batch = 0});
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message ==
        "layer \"in\" (Data): has 2 tops, but the records have 0 fields");
}

TEST_CASE("each data layer has its own records, of any shape and batch axis", "[shapes]") {
  const pb::NetParameter net = net_of(
      "layer { name: 'words' type: 'Data' top: 'word' top: 'next' top: 'cont'"
      "  data_param { batch_size: 4 } }"
      "layer { name: 'views' type: 'Data' top: 'view' data_param { batch_size: 6 } }");
  model::GraphOptions options;
  options.records["words"] = {{.shape = {50}, .batch_axis = 1}, {.shape = {50}}, {}};
  options.records["views"] = labelled_image(3, 8, 6);
  const auto graph = model::build_graph(net, options);
  REQUIRE(graph.has_value());
  CHECK(shape_of(graph.value(), "word") == "50x4");
  CHECK(shape_of(graph.value(), "next") == "4x50");
  CHECK(shape_of(graph.value(), "cont") == "4");
  CHECK(shape_of(graph.value(), "view") == "6x3x8x6");
  CHECK(model::fed_blobs(graph.value()) == std::vector<std::size_t>{0, 1, 2, 3});
  options.batch_divisor = 2;
  CHECK(shape_of(model::build_graph(net, options).value(), "word") == "50x2");
  CHECK(shape_of(model::build_graph(net, options).value(), "view") == "3x3x8x6");
  options.batch_divisor = 4;
  CHECK(model::build_graph(net, options).error().message ==
        "layer \"views\" (Data): a batch of 6 cannot be split over 4 members "
        "(global_batch) or devices");
}

TEST_CASE("an Input layer produces its shapes", "[shapes]") {
  const auto input = [](const std::string& shapes) {
    return "layer { name: 'in' type: 'Input' top: 'a' top: 'b' input_param { " + shapes + " } }";
  };
  CHECK(shape_of(graph_of(input("shape { dim: 2 dim: 5 }")), "b") == "2x5");
  CHECK(shape_of(graph_of(input("shape { dim: 2 } shape { dim: 3 dim: 4 }")), "b") == "3x4");
  CHECK(error_of_net(input("")) ==
        "layer \"in\" (Input): input_param.shape is given 0 times for 2 tops: give one for each "
        "top, or one for all");
  CHECK(error_of_net(input("shape { dim: 2 dim: -5 }")) ==
        "layer \"in\" (Input): top \"a\" has shape 2x-5: extents must be at least 1");
  CHECK(error_of_net(input("shape { dim: 1099511627776 dim: 16777216 dim: 16777216 }")) ==
        "layer \"in\" (Input): top \"a\" has shape 1099511627776x16777216x16777216: more than the "
        "limit of 1099511627776 elements");
}

TEST_CASE("a convolution's top follows kernel, stride, pad and dilation", "[shapes]") {
  CHECK(conv("kernel_size: 3") == "4x6x6x4");
  CHECK(conv("kernel_size: 3 pad: 1") == "4x6x8x6");
  CHECK(conv("kernel_size: 3 stride: 2") == "4x6x3x2");
  CHECK(conv("kernel_size: 3 dilation: 2") == "4x6x4x2");
  CHECK(conv("kernel_size: 5 kernel_size: 1") == "4x6x4x6");
  CHECK(conv("kernel_h: 5 kernel_w: 1 pad_h: 2 stride_w: 2") == "4x6x8x3");
  CHECK(conv("kernel_size: 2 pad: 1 pad: 0 stride: 1 stride: 4") == "4x6x9x2");
  CHECK(conv("kernel_size: 3 group: 3") == "4x6x6x4");
}

TEST_CASE("a convolution's parameters have Caffe's shapes", "[shapes]") {
  const model::Graph graph = graph_of(one_layer(
      "Convolution", "convolution_param { num_output: 6 kernel_size: 3 kernel_size: 2 group: 3 }"));
  REQUIRE(graph.parameters.size() == 2);
  CHECK(graph.parameters[0].name == "l/weight");
  CHECK(graph.parameters[0].shape == model::Shape{6, 1, 3, 2});
  CHECK(graph.parameters[1].name == "l/bias");
  CHECK(graph.parameters[1].shape == model::Shape{6});
  CHECK(graph.nodes[1].parameters == std::vector<std::size_t>{0, 1});
  CHECK(graph_of(one_layer("Convolution",
                           "convolution_param { num_output: 6 kernel_size: 3 bias_term: false }"))
            .parameters.size() == 1);
}

TEST_CASE("a convolution that cannot work is reported", "[shapes]") {
  const std::string layer = "layer \"l\" (Convolution): ";
  CHECK(conv_error("kernel_size: 3") == layer + "convolution_param.num_output is missing");
  CHECK(conv_error("num_output: 0") ==
        layer + "convolution_param.num_output must be at least 1, is 0");
  CHECK(conv_error("num_output: 1") ==
        layer + "kernel_size is missing: give kernel_size, or kernel_h and kernel_w");
  CHECK(conv_error("num_output: 1 kernel_h: 2") ==
        layer + "kernel_size is missing: give kernel_size, or kernel_h and kernel_w");
  CHECK(conv_error("num_output: 1 kernel_size: 2 kernel_h: 2") ==
        layer + "kernel_size and kernel_h or kernel_w are both given: use one of them");
  CHECK(conv_error("num_output: 1 kernel_size: 1 kernel_size: 1 kernel_size: 1") ==
        layer + "kernel_size is given 3 times; images have 2 sides");
  CHECK(conv_error("num_output: 1 kernel_size: 0") ==
        layer + "kernel_size must be between 1 and 1048576, is 0");
  CHECK(conv_error("num_output: 1 kernel_size: 1 stride_w: 0") ==
        layer + "stride_w must be between 1 and 1048576, is 0");
  CHECK(conv_error("num_output: 1 kernel_size: 4294967295 dilation: 4294967295") ==
        layer + "kernel_size must be between 1 and 1048576, is 4294967295");
  CHECK(conv_error("num_output: 1 kernel_size: 7") ==
        layer + "the kernel's width of 7 is larger than the padded input's 6 (6 + 2 * 0)");
  CHECK(conv_error("num_output: 1 kernel_size: 5 dilation: 3 pad: 1") ==
        layer +
            "the kernel's height of 5 (it covers 13 with dilation 3) is larger than the padded "
            "input's 10 (8 + 2 * 1)");
  CHECK(conv_error("num_output: 4 kernel_size: 1 group: 2") ==
        layer +
            "convolution_param.group of 2 does not divide the bottom's 3 channels and "
            "num_output 4");
  CHECK(
      conv_error("num_output: 4 kernel_size: 1 group: 0").find(layer + "convolution_param.group") ==
      0);
  CHECK(error_of_net(kData + kTwo +
                     "layer { name: 'l' type: 'Convolution' bottom: 'ip' top: 'out'"
                     "  convolution_param { num_output: 4 kernel_size: 1 } }") ==
        layer +
            "the bottom has shape 4x10, but must be images (N x C x H x W) or signals (N x C x W)");
}

TEST_CASE("a pooling rounds up, and omits a window beyond the image", "[shapes]") {
  CHECK(pool("kernel_size: 2 stride: 2") == "4x3x4x3");
  CHECK(pool("kernel_size: 3 stride: 2") == "4x3x4x3");  // (8 - 3) / 2 rounded up, + 1
  CHECK(pool("kernel_h: 2 kernel_w: 3 stride: 1") == "4x3x7x4");
  CHECK(pool("global_pooling: true") == "4x3x1x1");
  CHECK(pooled(8, 3, 2, 0) == 4);
  CHECK(pooled(32, 3, 2, 0) == 16);
  // The third window would start at 4, behind 3 + 1.
  CHECK(pooled(3, 2, 2, 1) == 2);
  CHECK(pooled(4, 2, 2, 1) == 3);
  // The second window would start at 4, behind the image.
  CHECK(pooled(4, 1, 4, 0) == 1);
  CHECK(pooled(5, 1, 3, 0) == 2);
}

TEST_CASE("no pooling window is outside the image and its front pad", "[shapes]") {
  for (std::int64_t size = 1; size < 12; ++size) {
    for (std::int64_t kernel = 1; kernel < 6; ++kernel) {
      for (std::int64_t stride = 1; stride < 6; ++stride) {
        for (std::int64_t pad = 0; pad < kernel; ++pad) {
          if (kernel > size + 2 * pad) continue;
          const std::int64_t windows = pooled(size, kernel, stride, pad);
          CHECK(windows >= 1);
          CHECK((windows - 1) * stride < size + pad);
          // One more would start behind it, or hold nothing that the last one does not reach.
          const bool is_all =
              windows * stride >= size + pad || (windows - 1) * stride + kernel >= size + 2 * pad;
          CHECK(is_all);
        }
      }
    }
  }
}

TEST_CASE("a pooling that cannot work is reported", "[shapes]") {
  const std::string layer = "layer \"l\" (Pooling): ";
  CHECK(pool_error("") ==
        layer + "kernel_size is missing: give kernel_size, or kernel_h and kernel_w");
  CHECK(pool_error("kernel_size: 2 pad: 2") ==
        layer + "the pad of 2x2 is not smaller than the kernel of 2x2");
  CHECK(pool_error("kernel_size: 9") ==
        layer + "the kernel's height of 9 is larger than the padded input's 8 (8 + 2 * 0)");
  CHECK(pool_error("global_pooling: true kernel_size: 2") ==
        layer + "global_pooling covers the whole image: omit the kernel's size");
  CHECK(pool_error("global_pooling: true stride: 2") ==
        layer + "global_pooling has one window: pad 0 and stride 1");
}

TEST_CASE("an inner product flattens the axes from its own on", "[shapes]") {
  const auto ip = [](const std::string& fields) {
    return graph_of(
        one_layer("InnerProduct", "inner_product_param { num_output: 7 " + fields + " }"));
  };
  CHECK(shape_of(ip(""), "out") == "4x7");
  CHECK(ip("").parameters[0].shape == model::Shape{7, 144});
  CHECK(ip("").parameters[1].shape == model::Shape{7});
  CHECK(shape_of(ip("axis: -1"), "out") == "4x3x8x7");
  CHECK(ip("axis: -1 bias_term: false").parameters.size() == 1);
  CHECK(
      error_of_net(one_layer("InnerProduct", "inner_product_param { num_output: 7 axis: 4 }")) ==
      "layer \"l\" (InnerProduct): inner_product_param.axis is 4, but the bottom of shape 4x3x8x6 "
      "has axes -4 to 3");
  CHECK(error_of_net(one_layer("InnerProduct", "")) ==
        "layer \"l\" (InnerProduct): inner_product_param.num_output is missing");
}

TEST_CASE("layers that work on each value keep the shape", "[shapes]") {
  for (const char* type : {"ReLU", "Sigmoid", "TanH", "Dropout", "Softmax"}) {
    CHECK(out_shape(type, "") == "4x3x8x6");
  }
  CHECK(error_of_net(one_layer("Dropout", "dropout_param { dropout_ratio: 1 }")) ==
        "layer \"l\" (Dropout): dropout_param.dropout_ratio must be in [0, 1), is 1");
  CHECK(error_of_net(one_layer("ReLU", "relu_param { negative_slope: -1 }")) ==
        "layer \"l\" (ReLU): relu_param.negative_slope must be at least 0, is -1");
  CHECK(error_of_net(one_layer("Softmax", "softmax_param { axis: 5 }"))
            .find("layer \"l\" (Softmax): softmax_param.axis is 5, but the bottom") == 0);
}

TEST_CASE("loss and accuracy are scalars, and require a label for each position", "[shapes]") {
  const auto judge = [](const std::string& type, const std::string& rest) {
    return kData + kTwo + "layer { name: 'l' type: '" + type + "' bottom: 'ip' " + rest + " }";
  };
  const model::Graph graph =
      graph_of(judge("SoftmaxWithLoss", "bottom: 'label' top: 'loss' top: 'prob'"));
  CHECK(shape_of(graph, "loss") == "scalar");
  CHECK(shape_of(graph, "prob") == "4x10");
  CHECK(shape_of(graph_of(judge("Accuracy", "bottom: 'label' top: 'a'")), "a") == "scalar");
  CHECK(shape_of(graph_of(judge("Accuracy", "bottom: 'label' top: 'a' top: 'each'")), "each") ==
        "10");
  CHECK(error_of_net(judge("Accuracy", "bottom: 'label' top: 'a' top: 'b' top: 'c'")) ==
        "layer \"l\" requires 1 to 2 tops, but has 3");
  CHECK(error_of_net(judge("SoftmaxWithLoss", "bottom: 'data' top: 'loss'")) ==
        "layer \"l\" (SoftmaxWithLoss): scores of shape 4x10 need 4 labels, but the second bottom "
        "has shape 4x3x8x6");
  CHECK(error_of_net(judge("Accuracy", "bottom: 'label' top: 'a' accuracy_param { top_k: 11 }")) ==
        "layer \"l\" (Accuracy): accuracy_param.top_k is 11, but there are 10 classes");
}
