#include "worker/export/onnx/layer_translation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace taut::onnx {

std::string NetTranslation::new_name(const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !names.insert(name).second; ++number) {
    name = fmt::format("{}_{}", wanted, number);
  }
  return name;
}

Extent NetTranslation::extent(std::size_t blob, std::size_t axis) const {
  const std::int64_t extent = net.blobs[blob].shape[axis];
  if (!axis_varies(blob, axis)) return extent;
  return std::string(extent == batch ? "N" : "");
}

std::string LayerTranslation::bottom(std::size_t index) const {
  BlobValue& blob = net_.blobs[node().bottoms[index]];
  blob.is_read = true;
  blob.input_is_read = blob.input_is_read || blob.is_fed;
  return blob.name;
}

void LayerTranslation::drop_bottom(std::size_t index) const {
  BlobValue& blob = net_.blobs[node().bottoms[index]];
  if (!blob.is_fed) blob.is_read = true;
}

const model::Shape& LayerTranslation::bottom_shape(std::size_t index) const {
  return net_.net.blobs[node().bottoms[index]].shape;
}

const model::Shape& LayerTranslation::top_shape(std::size_t index) const {
  return net_.net.blobs[node().tops[index]].shape;
}

Dims LayerTranslation::top_dims(std::size_t index) const {
  const std::size_t blob = node().tops[index];
  Dims dims = net_.net.blobs[blob].shape;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (net_.axis_varies(blob, axis)) dims[axis] = -1;
  }
  return dims;
}

const model::Shape& LayerTranslation::parameter_shape(std::size_t index) const {
  return net_.net.parameters[table(index)].shape;
}

std::string LayerTranslation::parameter(std::size_t index) {
  return parameter(index, parameter_shape(index));
}

std::string LayerTranslation::parameter(std::size_t index, const Dims& dims) {
  const std::string& name = net_.net.parameters[table(index)].name;
  const auto found = std::ranges::find(net_.parameters, name, &ParameterTensor::name);
  if (found != net_.parameters.end() && found->dims == dims) return name;  // shared
  net_.parameters.push_back({net_.new_name(name), dims, model::whole_table(table(index))});
  return net_.parameters.back().name;
}

std::string LayerTranslation::derived(const std::string& suffix, const Dims& dims,
                                      model::TableNumbers numbers) {
  net_.parameters.push_back({new_value(suffix), dims, std::move(numbers)});
  return net_.parameters.back().name;
}

std::string LayerTranslation::number(float value) {
  return floats({}, {value});
}

std::string LayerTranslation::floats(const Dims& dims, const std::vector<float>& values) {
  std::string name = new_value("constant");
  *net_.graph.add_initializer() = float_tensor(name, dims, values);
  return name;
}

std::string LayerTranslation::wholes(const Dims& values) {
  std::string name = new_value("constant");
  *net_.graph.add_initializer() = whole_tensor(name, values);
  return name;
}

std::string LayerTranslation::booleans(const Dims& dims, const std::vector<bool>& values) {
  std::string name = new_value("constant");
  *net_.graph.add_initializer() = bool_tensor(name, dims, values);
  return name;
}

std::string LayerTranslation::add(const std::string& op, const Names& inputs,
                                  const Attributes& attributes) {
  return add_several(op, 1, inputs, attributes).front();
}

Names LayerTranslation::add_several(const std::string& op, std::size_t outputs, const Names& inputs,
                                    const Attributes& attributes) {
  Names names;
  for (std::size_t i = 0; i < outputs; ++i) names.push_back(new_value(op));
  add_node(net_.graph, op, names.front(), inputs, names, attributes);
  return names;
}

void LayerTranslation::write(std::size_t top, const std::string& op, const Names& inputs,
                             const Attributes& attributes) {
  const std::string name = top_name(top);
  add_node(net_.graph, op, top == 0 ? definition().name() : name, inputs, {name}, attributes);
  BlobValue& blob = net_.blobs[node().tops[top]];
  blob.name = name;
  blob.is_read = false;
  blob.is_fed = false;
}

/// The value of the last layer that writes a blob has the blob's name; earlier ones, replaced in
/// place, also have their layer's.
std::string LayerTranslation::top_name(std::size_t top) {
  const std::size_t blob = node().tops[top];
  const std::string& name = net_.net.blobs[blob].name;
  const bool has_name = net_.last_writer[blob] == node_ && !net_.names.contains(name);
  return net_.new_name(has_name ? name : fmt::format("{}@{}", name, definition().name()));
}

std::string LayerTranslation::state_input(const std::string& name,
                                          const std::vector<Extent>& extents) {
  std::string value = new_value(name);
  net_.state_inputs.push_back(float_value(value, extents));
  return value;
}

void LayerTranslation::state_output(const std::string& name, const std::vector<Extent>& extents,
                                    const std::string& value) {
  const std::string output = new_value(name);
  add_node(net_.graph, "Identity", output, {value}, {output}, {});
  net_.state_outputs.push_back(float_value(output, extents));
}

}  // namespace taut::onnx
