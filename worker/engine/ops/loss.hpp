#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "worker/engine/ops/ops.hpp"

// Softmax, losses and accuracies. A loss is [1]; backward computes the gradient of `weight` times
// it.
namespace taut {

/// Classes are along `axis`; every other index is one position with its own scores.
struct SoftmaxSpec {
  using Op = class SoftmaxOp;
  Extents shape;
  std::size_t axis = 1;
};

class SoftmaxOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "softmax";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> top, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

/// The divisor of a loss's sum.
enum class Normalization : std::uint8_t {
  kFull,       // all positions
  kValid,      // the positions whose label is not ignored, at least 1
  kBatchSize,  // the first axis's extent
  kNone,       // 1
};

struct SoftmaxLossSpec {
  using Op = class SoftmaxLossOp;
  Extents shape;
  std::size_t axis = 1;
  std::optional<std::int64_t> ignore_label;
  Normalization normalization = Normalization::kValid;
};

/// loss [1] = the sum of -log(probability of the label) over the positions whose label counts,
/// normalized
/// Errors    std::invalid_argument: a label is neither a class nor the ignored one
class SoftmaxLossOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "softmax loss";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> labels,
                       DeviceSpan<float> probabilities, DeviceSpan<float> loss) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> probabilities,
                        DeviceSpan<const float> labels, float weight,
                        DeviceSpan<float> bottom_gradient) = 0;
};

struct InfogainLossSpec {
  using Op = class InfogainLossOp;
  Extents shape;
  std::size_t axis = 1;
  std::optional<std::int64_t> ignore_label;
  Normalization normalization = Normalization::kValid;
};

/// loss [1] = the sum over the positions whose label l counts, and over classes k, of
/// -matrix[l][k] * log(probability of k), normalized; matrix [classes, classes]
/// Errors    std::invalid_argument: a label is neither a class nor the ignored one
/// Source    Caffe, src/caffe/layers/infogain_loss_layer.cpp
class InfogainLossOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "infogain loss";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> labels,
                       DeviceSpan<const float> matrix, DeviceSpan<float> probabilities,
                       DeviceSpan<float> loss) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> probabilities,
                        DeviceSpan<const float> labels, DeviceSpan<const float> matrix,
                        float weight, DeviceSpan<float> bottom_gradient) = 0;
};

enum class PairLossKind : std::uint8_t {
  kEuclidean,            // sum of (a - b)^2 / 2
  kSigmoidCrossEntropy,  // sum of -(b log s(a) + (1 - b) log(1 - s(a))), s the sigmoid
};

struct PairLossSpec {
  using Op = class PairLossOp;
  PairLossKind kind = PairLossKind::kEuclidean;
  Extents first;                             // of a
  Extents second;                            // of b: the same except for extents of 1
  std::optional<std::int64_t> ignore_label;  // kSigmoidCrossEntropy: of b
  Normalization normalization = Normalization::kBatchSize;
};

/// A loss that compares two tensors element by element.
/// Source    Caffe, src/caffe/layers/{euclidean,sigmoid_cross_entropy}_loss_layer.cpp
class PairLossOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "pair loss";
  virtual void forward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
                       DeviceSpan<float> loss) = 0;
  /// An empty gradient is not computed; a cross entropy has no gradient of b.
  virtual void backward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b, float weight,
                        DeviceSpan<float> a_gradient, DeviceSpan<float> b_gradient) = 0;
};

struct HingeLossSpec {
  using Op = class HingeLossOp;
  Extents shape;  // the first axis counts records; all others are classes
  bool squared = false;
};

/// loss = the sum over records and classes k of max(0, 1 - t score_k), or of its square, where t is
/// 1 for the label and -1 for the others, divided by the number of records
/// Errors    std::invalid_argument: a label is not a class
/// Source    Caffe, src/caffe/layers/hinge_loss_layer.cpp
class HingeLossOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "hinge loss";
  virtual void forward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                       DeviceSpan<float> loss) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                        float weight, DeviceSpan<float> scores_gradient) = 0;
};

struct ContrastiveLossSpec {
  using Op = class ContrastiveLossOp;
  std::int64_t pairs = 0;
  std::int64_t features = 0;
  float margin = 1;
  bool legacy = false;  // max(margin - d^2, 0) for a dissimilar pair
};

/// loss = 1 / (2 pairs) * the sum over pairs of d^2 where they are alike (a label other than 0),
/// and of max(margin - d, 0)^2 where they are not; d is the distance of a and b.
/// Source    Hadsell et al., "Dimensionality Reduction by Learning an Invariant Mapping", CVPR
///           2006;
/// Caffe, src/caffe/layers/contrastive_loss_layer.cpp
class ContrastiveLossOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "contrastive loss";
  virtual void forward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
                       DeviceSpan<const float> similar, DeviceSpan<float> loss) = 0;
  /// An empty gradient is not computed.
  virtual void backward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
                        DeviceSpan<const float> similar, float weight, DeviceSpan<float> a_gradient,
                        DeviceSpan<float> b_gradient) = 0;
};

struct AccuracySpec {
  using Op = class AccuracyOp;
  Extents shape;
  std::size_t axis = 1;
  std::int64_t top_k = 1;
  std::optional<std::int64_t> ignore_label;
};

/// accuracy [1] = among the positions whose label counts, the share at which fewer than top_k other
/// classes score at least as high as the label; 0 if no label counts
/// by_class [classes] = the same for each class over the positions that have it as label; empty:
/// not computed
/// Errors    std::invalid_argument: a label is neither a class nor the ignored one
/// Source    Caffe, src/caffe/layers/accuracy_layer.cpp
class AccuracyOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "accuracy";
  virtual void forward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                       DeviceSpan<float> accuracy, DeviceSpan<float> by_class) = 0;
};

#define TAUT_LOSS_SPECS(X) \
  X(SoftmaxSpec)           \
  X(SoftmaxLossSpec)       \
  X(InfogainLossSpec) X(PairLossSpec) X(HingeLossSpec) X(ContrastiveLossSpec) X(AccuracySpec)

}  // namespace taut
