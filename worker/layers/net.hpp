#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "worker/engine/backend.hpp"
#include "worker/layers/layer.hpp"
#include "worker/model/graph.hpp"

namespace taut {

/// A complete graph on a device. The caller walks the layers: forward from 0 upwards, backward from
/// the last one down, so that it can wait for and send each layer's parameters separately.
///
/// Parameters' memory is the caller's. A layer's backward reads the values that its forward read:
/// they must not change until then. Gradients are this net's mean over its batch; they are
/// overwritten, and gradients_after() tells when they are complete.
/// Thread    one at a time
class Net {
 public:
  static constexpr std::size_t kMaxClasses = 1000;

  struct Options {
    std::uint64_t seed = 0;  // of the job
    /// The member's slot, unique among the nets of the job: dropout depends on it.
    std::uint32_t slot = 0;
  };

  /// Allocates every blob. Keeps a reference to `backend`; copies what it needs of `graph`.
  /// Errors    std::invalid_argument: names a layer that the backend does not support; DeviceError
  Net(const model::Graph& graph, Backend& backend, const Options& options);
  ~Net();

  [[nodiscard]] std::span<const TableSpec> parameters() const { return graph_.parameters; }
  [[nodiscard]] std::size_t layer_count() const { return graph_.nodes.size(); }
  /// The parameters that a layer reads, weights first; a shared one belongs to several layers.
  [[nodiscard]] std::span<const std::size_t> parameters_of(std::size_t layer) const;
  /// The trained parameters whose gradients, and the averaged ones whose new values, are complete
  /// after this layer's backward: each is named by exactly one layer of a TRAIN net.
  [[nodiscard]] std::span<const std::size_t> gradients_after(std::size_t layer) const;

  /// Bindings may change between any two clocks.
  void bind_value(std::size_t parameter, DeviceSpan<const float> value);
  void bind_gradient(std::size_t parameter, DeviceSpan<float> gradient);

  /// The number of blobs that set_batch() fills.
  [[nodiscard]] std::size_t fed_count() const { return fed_.size(); }

  /// Feeds the net: one blob for each of model::fed_blobs, in that order, images in Caffe's order.
  /// Host memory must not change until the stream has passed.
  void set_batch(Stream& stream, std::span<const std::span<const float>> fed);
  void set_batch(Stream& stream, std::initializer_list<std::span<const float>> fed) {
    set_batch(stream, std::span(fed.begin(), fed.size()));
  }
  /// Overload for values that are already on the device, in the device's order.
  void set_batch(Stream& stream, std::span<const DeviceSpan<const float>> fed);

  /// If the backend repeats, one call queues the layer and all that follow it up to the next one
  /// with parameters, and the calls for those do nothing.
  /// REQUIRES: the layer's parameters have values; all layers are walked in order. Errors:
  /// std::invalid_argument for a label that is not a class.
  void forward(std::size_t layer, Stream& stream, Clock clock);
  /// If the backend repeats, a layer without gradients_after() is queued with the next one that has
  /// some. REQUIRES: the layer's trained parameters have gradients bound; all layers are walked in
  /// order. Does nothing if no gradient is computed.
  void backward(std::size_t layer, Stream& stream);

  /// Copies the values of the graph's last blob of that name in Caffe's order. Waits for the
  /// stream. REQUIRES: it exists and has `into`'s size.
  void read_blob(Stream& stream, const std::string& name, std::span<float> into);
  /// Overload for a blob by its index in the graph.
  void read_blob(Stream& stream, std::size_t blob, std::span<float> into);

  /// The weighted sum of the losses of the last forward. Waits for the stream.
  [[nodiscard]] double loss(Stream& stream);
  /// loss() in two steps: copies the numbers that loss_of() sums, which are ready once the stream
  /// has passed this point.
  /// into  loss_count() of them, in memory from Backend::allocate_host()
  void copy_losses(Stream& stream, std::span<float> into);
  [[nodiscard]] std::size_t loss_count() const;
  [[nodiscard]] double loss_of(std::span<const float> numbers) const;

  /// The state that all layers keep from one batch to the next, in the layers' order.
  [[nodiscard]] std::vector<DeviceSpan<float>> carried_state();

  struct Output {
    std::string name;
    double value = 0;
    double weight = 1;  // in a mean over batches; for a class: its number of labels in this batch
  };
  /// The graph's outputs that are single numbers: losses and accuracies of the last forward. An
  /// Accuracy's second top with at most kMaxClasses classes gives one number for each class,
  /// "NAME[CLASS]". The same names in the same order after each batch. Waits for the stream.
  [[nodiscard]] std::vector<Output> outputs(Stream& stream);

 private:
  /// A sum that follows a layer's backward: another layer's gradient, plus this one's.
  struct Sum {
    DeviceSpan<const float> from;
    DeviceSpan<float> into;
  };
  /// A top with a loss weight, of a layer that is not a loss: the weight is the top's gradient, or
  /// a part of it.
  struct WeightedTop {
    float weight = 0;
    DeviceSpan<float> gradient;
    DeviceSpan<float> part;  // empty: no other layer writes the gradient
  };
  struct Loss {
    std::size_t blob = 0;
    float weight = 0;
  };
  [[nodiscard]] std::vector<Loss> losses() const;
  struct Step {
    std::unique_ptr<Layer> layer;     // nullptr: the step is fed
    bool has_forward = true;          // false: the next or the previous step's layer computes it
    bool has_bottoms_before = false;  // its layer also computes the previous step
    std::vector<Tensor> bottoms;
    std::vector<Tensor> tops;
    std::vector<Parameter> parameters;       // values and gradients as bound
    std::vector<DeviceSpan<float>> partial;  // for each parameter: empty unless it is summed
    std::vector<Sum> bottom_sums;
    std::vector<WeightedTop> weighted_tops;
    bool has_statistics = false;  // its backward writes them, even without gradients
    std::vector<std::size_t> gradients_after;
    std::vector<std::size_t> without_gradient;  // trained, but not used by any loss: zeros
  };

  /// Layers [first, last) in the order of a pass, between which the caller does not wait.
  struct Run {
    std::size_t first = 0;
    std::size_t last = 0;
  };
  void forward_layer(std::size_t layer, Stream& stream, Clock clock);
  void backward_layer(std::size_t layer, Stream& stream);
  void find_runs();
  [[nodiscard]] std::uint64_t key_of(const Run& run, bool is_forward) const;
  void allocate_blobs();
  void make_steps(const Options& options);
  void share_bottom_gradients();
  void weigh_tops(std::size_t layer, const std::vector<bool>& written);
  void share_parameter_gradients();
  [[nodiscard]] bool needs_gradient(std::size_t layer, std::size_t bottom) const;
  [[nodiscard]] DeviceSpan<float> new_floats(std::size_t count, BufferKind kind,
                                             const std::string& name);
  [[nodiscard]] float read_number(Stream& stream, std::size_t blob);
  void add_classes(Stream& stream, const model::Node& accuracy, std::vector<Output>& outputs);

  model::Graph graph_;
  Backend& backend_;
  std::vector<DeviceBuffer> memory_;
  std::vector<Tensor> blobs_;          // as in graph_.blobs
  std::vector<std::size_t> fed_;       // as model::fed_blobs
  std::vector<Parameter> parameters_;  // as in graph_.parameters
  std::vector<Step> steps_;            // as in graph_.nodes
  std::vector<Run> forward_runs_;      // by first layer; empty: the layer is in another run
  std::vector<Run> backward_runs_;     // by the last layer in backward order, the lowest
  Clock clock_;                        // of the last forward
  std::uint64_t number_;               // identifies this net in the process
};

}  // namespace taut
