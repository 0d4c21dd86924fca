#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "proto/formats/onnx/onnx.pb.h"

// Fills ONNX's messages.
namespace taut::onnx {

/// Extents, outermost first.
using Dims = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

/// An option of an operator.
struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, Dims, GraphProto> value;
};
using Attributes = std::vector<Attribute>;

/// A whole number as an attribute, whatever its type in the caller.
[[nodiscard]] inline Attribute whole(std::string name, std::int64_t value) {
  return {std::move(name), value};
}

/// Appends an operator to a graph.
void add_node(GraphProto& graph, const std::string& op, const std::string& name,
              const Names& inputs, const Names& outputs, const Attributes& attributes);

/// A constant. REQUIRES: as many values as `dims` has elements.
[[nodiscard]] TensorProto float_tensor(const std::string& name, const Dims& dims,
                                       const std::vector<float>& values);
[[nodiscard]] TensorProto whole_tensor(const std::string& name, const Dims& values);
[[nodiscard]] TensorProto bool_tensor(const std::string& name, const Dims& dims,
                                      const std::vector<bool>& values);

/// An extent of an input or output: a number, or a name if it is known only when the model is used.
using Extent = std::variant<std::int64_t, std::string>;

/// A float32 input or output.
[[nodiscard]] ValueInfoProto float_value(const std::string& name,
                                         const std::vector<Extent>& extents);

}  // namespace taut::onnx
