#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "worker/backend/ops.hpp"

// Losses and what is measured of scores. A loss is [1]; backward makes the gradient of `weight`
// times it.
namespace taut {

/// What a loss's sum is divided by.
enum class Normalization : std::uint8_t {
  kFull,       // all positions
  kValid,      // the positions whose label is not ignored, at least 1
  kBatchSize,  // the first axis's extent
  kNone,       // 1
};

struct SoftmaxLossSpec {
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
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> labels,
                       DeviceSpan<float> probabilities, DeviceSpan<float> loss) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> probabilities,
                        DeviceSpan<const float> labels, float weight,
                        DeviceSpan<float> bottom_gradient) = 0;
};

enum class PairLossKind : std::uint8_t {
  kEuclidean,            // sum of (a - b)^2 / 2
  kSigmoidCrossEntropy,  // sum of -(b log s(a) + (1 - b) log(1 - s(a))), s the sigmoid
};

struct PairLossSpec {
  PairLossKind kind = PairLossKind::kEuclidean;
  Extents first;                             // of a
  Extents second;                            // of b: the same but for extents of 1
  std::optional<std::int64_t> ignore_label;  // kSigmoidCrossEntropy: of b
  Normalization normalization = Normalization::kBatchSize;
};

/// A loss that compares two tensors element by element.
/// Source    Caffe, src/caffe/layers/{euclidean,sigmoid_cross_entropy}_loss_layer.cpp
class PairLossOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
                       DeviceSpan<float> loss) = 0;
  /// An empty gradient is one that nobody wants; a cross entropy has none of b.
  virtual void backward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b, float weight,
                        DeviceSpan<float> a_gradient, DeviceSpan<float> b_gradient) = 0;
};

struct HingeLossSpec {
  Extents shape;  // one position for each record: all else is classes
  bool squared = false;
};

/// loss = the sum over records and classes k of max(0, 1 - t score_k), where t is 1 for the label
/// and -1 for the others, or of its square, divided by the records
/// Errors    std::invalid_argument: a label is no class
/// Source    Caffe, src/caffe/layers/hinge_loss_layer.cpp
class HingeLossOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                       DeviceSpan<float> loss) = 0;
  virtual void backward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                        float weight, DeviceSpan<float> scores_gradient) = 0;
};

struct ContrastiveLossSpec {
  std::int64_t pairs = 0;
  std::int64_t features = 0;
  float margin = 1;
  bool legacy = false;  // max(margin - d^2, 0) for what is not alike
};

/// loss = 1 / (2 pairs) * the sum over pairs of d^2 where they are alike (a label other than 0),
/// and of max(margin - d, 0)^2 where they are not; d is the distance of a and b.
/// Source    Hadsell et al., "Dimensionality Reduction by Learning an Invariant Mapping", CVPR 2006;
/// Caffe, src/caffe/layers/contrastive_loss_layer.cpp
class ContrastiveLossOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
                       DeviceSpan<const float> alike, DeviceSpan<float> loss) = 0;
  /// An empty gradient is one that nobody wants.
  virtual void backward(Stream&, DeviceSpan<const float> a, DeviceSpan<const float> b,
                        DeviceSpan<const float> alike, float weight, DeviceSpan<float> a_gradient,
                        DeviceSpan<float> b_gradient) = 0;
};

struct AccuracySpec {
  Extents shape;
  std::size_t axis = 1;
  std::int64_t top_k = 1;
  std::optional<std::int64_t> ignore_label;
};

/// accuracy [1] = the share of the positions whose label counts at which fewer than top_k other
/// classes score at least as high as the label; 0 where no label counts
/// by_class [classes] = the same for each class over the positions that have it as label; empty: nobody
/// wants it
/// Errors    std::invalid_argument: a label is neither a class nor the ignored one
/// Source    Caffe, src/caffe/layers/accuracy_layer.cpp
class AccuracyOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
                       DeviceSpan<float> accuracy, DeviceSpan<float> by_class) = 0;
};

}  // namespace taut
