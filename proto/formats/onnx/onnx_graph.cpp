#include "proto/formats/onnx/onnx_graph.hpp"

#include <bit>
#include <cstddef>

#include "common/check.hpp"

namespace taut::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

/// Sets an attribute's value and its type.
struct SetValue {
  AttributeProto& attribute;

  void operator()(std::int64_t value) const {
    attribute.set_i(value);
    attribute.set_type(AttributeProto::INT);
  }
  void operator()(float value) const {
    attribute.set_f(value);
    attribute.set_type(AttributeProto::FLOAT);
  }
  void operator()(const std::string& value) const {
    attribute.set_s(value);
    attribute.set_type(AttributeProto::STRING);
  }
  void operator()(const Dims& value) const {
    attribute.mutable_ints()->Add(value.begin(), value.end());
    attribute.set_type(AttributeProto::INTS);
  }
  void operator()(const GraphProto& value) const {
    *attribute.mutable_g() = value;
    attribute.set_type(AttributeProto::GRAPH);
  }
};

TensorProto tensor_of(const std::string& name, const Dims& dims, TensorProto::DataType type) {
  TensorProto tensor;
  tensor.set_name(name);
  tensor.mutable_dims()->Add(dims.begin(), dims.end());
  tensor.set_data_type(type);
  return tensor;
}

std::size_t count_of(const Dims& dims) {
  std::size_t count = 1;
  for (const std::int64_t extent : dims) count *= static_cast<std::size_t>(extent);
  return count;
}

}  // namespace

void add_node(GraphProto& graph, const std::string& op, const std::string& name,
              const Names& inputs, const Names& outputs, const Attributes& attributes) {
  NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const Attribute& attribute : attributes) {
    AttributeProto& added = *node.add_attribute();
    added.set_name(attribute.name);
    std::visit(SetValue{added}, attribute.value);
  }
}

TensorProto float_tensor(const std::string& name, const Dims& dims,
                         const std::vector<float>& values) {
  TAUT_CHECK(values.size() == count_of(dims), "a constant has a value for each element");
  TensorProto tensor = tensor_of(name, dims, TensorProto::FLOAT);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return tensor;
}

TensorProto whole_tensor(const std::string& name, const Dims& values) {
  TensorProto tensor =
      tensor_of(name, {static_cast<std::int64_t>(values.size())}, TensorProto::INT64);
  tensor.set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
  return tensor;
}

TensorProto bool_tensor(const std::string& name, const Dims& dims,
                        const std::vector<bool>& values) {
  TAUT_CHECK(values.size() == count_of(dims), "a constant has a value for each element");
  TensorProto tensor = tensor_of(name, dims, TensorProto::BOOL);
  std::string bytes;
  for (const bool value : values) bytes += value ? '\1' : '\0';
  tensor.set_raw_data(bytes);
  return tensor;
}

ValueInfoProto float_value(const std::string& name, const std::vector<Extent>& extents) {
  ValueInfoProto value;
  value.set_name(name);
  TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(TensorProto::FLOAT);
  TensorShapeProto& shape = *type.mutable_shape();  // of a single number: without extents
  for (const Extent& extent : extents) {
    TensorShapeProto::Dimension& dim = *shape.add_dim();
    if (const auto* number = std::get_if<std::int64_t>(&extent)) {
      dim.set_dim_value(*number);
    } else if (const std::string& symbol = std::get<std::string>(extent); !symbol.empty()) {
      dim.set_dim_param(symbol);
    }
  }
  return value;
}

}  // namespace taut::onnx
