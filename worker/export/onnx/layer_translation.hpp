#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "proto/formats/onnx/onnx_graph.hpp"
#include "worker/model/graph.hpp"
#include "worker/model/table_numbers.hpp"

namespace taut::onnx {

/// A constant that is computed from the net's parameters when the file is written.
struct ParameterTensor {
  std::string name;
  Dims dims;
  model::TableNumbers numbers;
};

/// A blob of the net while its layers are translated, one after another.
struct BlobValue {
  std::string name;            // of its current value; empty: none, or a left-out layer's
  bool is_read = false;        // by a translated layer
  bool is_fed = false;         // the value is an input of the net
  bool input_is_read = false;  // the same for a fed blob, even if replaced in place since
};

/// The state of a net's translation: the graph so far, and the current value of each blob.
struct NetTranslation {
  const model::Graph& net;
  std::int64_t batch = 0;  // records of the net's batch
  /// For each blob, whether an axis grows with the batch; empty: the batch is fixed.
  std::vector<std::vector<bool>> varies = {};

  GraphProto graph = {};
  std::vector<ParameterTensor> parameters = {};
  std::vector<ValueInfoProto> state_inputs = {};   // of recurrent layers, after the fed blobs
  std::vector<ValueInfoProto> state_outputs = {};  // after the net's own outputs
  std::vector<BlobValue> blobs = {};               // as in net.blobs
  std::vector<std::size_t> last_writer = {};       // of each blob: a node
  std::set<std::string> names = {};                // of all values

  [[nodiscard]] bool axis_varies(std::size_t blob, std::size_t axis) const {
    return !varies.empty() && varies[blob][axis];
  }
  /// A number or, if the extent grows with the batch, "N" if it is the batch, else unknown.
  [[nodiscard]] Extent extent(std::size_t blob, std::size_t axis) const;
  /// The name, with a number appended if it is already in use.
  [[nodiscard]] std::string new_name(const std::string& wanted);
};

/// The translation of one layer: what it reads, and the operators that replace it.
class LayerTranslation {
 public:
  LayerTranslation(NetTranslation& net, std::size_t node) : net_(net), node_(node) {}

  [[nodiscard]] const pb::LayerParameter& definition() const { return node().definition; }
  [[nodiscard]] const model::Graph& graph() const { return net_.net; }
  [[nodiscard]] const model::Node& node() const { return net_.net.nodes[node_]; }

  [[nodiscard]] std::size_t bottom_count() const { return node().bottoms.size(); }
  [[nodiscard]] std::size_t top_count() const { return node().tops.size(); }
  /// Returns the name of a bottom's value, and marks it as read.
  [[nodiscard]] std::string bottom(std::size_t index) const;
  /// Marks the bottom as not an output of the net, though no operator reads its value.
  void drop_bottom(std::size_t index) const;
  [[nodiscard]] const model::Shape& bottom_shape(std::size_t index) const;
  [[nodiscard]] const model::Shape& top_shape(std::size_t index) const;
  /// The top's shape for a Reshape: -1 for an axis that grows with the batch.
  [[nodiscard]] Dims top_dims(std::size_t index) const;
  [[nodiscard]] Extent bottom_extent(std::size_t index, std::size_t axis) const {
    return net_.extent(node().bottoms[index], axis);
  }

  [[nodiscard]] std::size_t parameter_count() const { return node().parameters.size(); }
  /// The index of a parameter among the graph's tables.
  [[nodiscard]] std::size_t table(std::size_t parameter) const {
    return node().parameters[parameter];
  }
  [[nodiscard]] const model::Shape& parameter_shape(std::size_t index) const;
  /// The name of a parameter as a constant, with its own extents or with `dims` instead.
  [[nodiscard]] std::string parameter(std::size_t index);
  [[nodiscard]] std::string parameter(std::size_t index, const Dims& dims);
  /// A constant that is computed from parameters.
  [[nodiscard]] std::string derived(const std::string& suffix, const Dims& dims,
                                    model::TableNumbers numbers);

  /// A name for a value of the layer's.
  [[nodiscard]] std::string new_value(const std::string& what) {
    return net_.new_name(definition().name() + "/" + what);
  }

  // Constants.
  [[nodiscard]] std::string number(float value);
  [[nodiscard]] std::string floats(const Dims& dims, const std::vector<float>& values);
  [[nodiscard]] std::string wholes(const Dims& values);
  [[nodiscard]] std::string booleans(const Dims& dims, const std::vector<bool>& values);

  /// Adds an operator; returns the name of its output, or the names of several.
  std::string add(const std::string& op, const Names& inputs, const Attributes& attributes = {});
  Names add_several(const std::string& op, std::size_t outputs, const Names& inputs,
                    const Attributes& attributes = {});
  [[nodiscard]] std::string reshape(const std::string& value, const Dims& dims) {
    return add("Reshape", {value, wholes(dims)});
  }
  /// Adds the operator whose output is a top.
  void write(std::size_t top, const std::string& op, const Names& inputs,
             const Attributes& attributes = {});

  /// An input and an output of the whole net for a state that the layer carries between batches.
  std::string state_input(const std::string& name, const std::vector<Extent>& extents);
  void state_output(const std::string& name, const std::vector<Extent>& extents,
                    const std::string& value);

 private:
  [[nodiscard]] std::string top_name(std::size_t top);

  NetTranslation& net_;
  std::size_t node_;
};

}  // namespace taut::onnx
