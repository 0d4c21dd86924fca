#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/data_fault.hpp"

namespace taut::cpu {

std::size_t class_of(float label, std::size_t position, std::size_t classes) {
  if (label >= 0 && label < static_cast<float>(classes)) return static_cast<std::size_t>(label);
  throw std::invalid_argument(label_fault(label, position, static_cast<std::int64_t>(classes)));
}

bool ignores(const std::optional<std::int64_t>& ignore_label, float label) {
  return ignore_label && label == static_cast<float>(*ignore_label);
}

double loss_divisor(Normalization normalization, std::size_t all, std::size_t counted,
                    std::size_t batch) {
  std::size_t divisor = 1;
  switch (normalization) {
    case Normalization::kFull:
      divisor = all;
      break;
    case Normalization::kValid:
      divisor = counted;
      break;
    case Normalization::kBatchSize:
      divisor = batch;
      break;
    case Normalization::kNone:
      break;
  }
  return static_cast<double>(std::max<std::size_t>(divisor, 1));
}

namespace {

/// The first element of a position's scores.
std::size_t place_of(const AxisView& view, std::size_t position) {
  return position / view.inner * view.length * view.inner + position % view.inner;
}

/// Labels are matched to positions in Caffe's order, which is the order in memory for axis 1 of
/// images and for any axis of other tensors.
AxisView view_of_scores(const char* layer, const Extents& shape, std::size_t axis) {
  if (is_channels_last(shape) && axis != 1) {
    throw std::invalid_argument(
        fmt::format("{}: the classes of images must be along axis 1, not {}", layer, axis));
  }
  return view_along(shape, axis);
}

class SoftmaxLoss final : public SoftmaxLossOp {
 public:
  explicit SoftmaxLoss(const SoftmaxLossSpec& spec)
      : spec_(spec), view_(view_of_scores("SoftmaxWithLoss", spec.shape, spec.axis)) {
    for (std::size_t i = 0; i < spec.axis; ++i) batch_ *= static_cast<std::size_t>(spec.shape[i]);
  }

  void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> labels,
               DeviceSpan<float> probabilities, DeviceSpan<float> loss) override {
    check_labels(labels);
    double sum = 0;
    for (std::size_t position = 0; position < view_.positions(); ++position) {
      const std::size_t at = place_of(view_, position);
      float* p = probabilities.address() + at;
      softmax_of(bottom.address() + at, p, view_.length, view_.inner);
      const float label = labels.address()[position];
      if (is_ignored(label)) continue;
      const float likely = p[class_of(label, position, view_.length) * view_.inner];
      sum -= std::log(std::max(likely, std::numeric_limits<float>::min()));
    }
    *loss.address() = static_cast<float>(sum / divisor(labels));
  }

  void backward(Stream&, DeviceSpan<const float> probabilities, DeviceSpan<const float> labels,
                float weight, DeviceSpan<float> bottom_gradient) override {
    check_labels(labels);
    const float scale = weight / static_cast<float>(divisor(labels));
    for (std::size_t position = 0; position < view_.positions(); ++position) {
      const std::size_t at = place_of(view_, position);
      const float* p = probabilities.address() + at;
      float* dx = bottom_gradient.address() + at;
      const float label = labels.address()[position];
      const float factor = is_ignored(label) ? 0 : scale;
      for (std::size_t k = 0; k < view_.length; ++k) {
        dx[k * view_.inner] = factor * p[k * view_.inner];
      }
      if (!is_ignored(label)) dx[class_of(label, position, view_.length) * view_.inner] -= scale;
    }
  }

 private:
  void check_labels(DeviceSpan<const float> labels) const {
    TAUT_CHECK(labels.size() == view_.positions(), "one label for each position");
  }
  [[nodiscard]] bool is_ignored(float label) const { return ignores(spec_.ignore_label, label); }
  [[nodiscard]] double divisor(DeviceSpan<const float> labels) const {
    const float* first = labels.address();
    const auto counted = std::count_if(first, first + labels.size(),
                                       [&](float label) { return !is_ignored(label); });
    return loss_divisor(spec_.normalization, view_.positions(), static_cast<std::size_t>(counted),
                        batch_);
  }

  SoftmaxLossSpec spec_;
  AxisView view_;
  std::size_t batch_ = 1;
};

class InfogainLoss final : public InfogainLossOp {
 public:
  explicit InfogainLoss(const InfogainLossSpec& spec)
      : spec_(spec), view_(view_of_scores("InfogainLoss", spec.shape, spec.axis)) {
    for (std::size_t i = 0; i < spec.axis; ++i) batch_ *= static_cast<std::size_t>(spec.shape[i]);
  }

  void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> labels,
               DeviceSpan<const float> matrix, DeviceSpan<float> probabilities,
               DeviceSpan<float> loss) override {
    check_sizes(labels, matrix);
    double sum = 0;
    for (std::size_t position = 0; position < view_.positions(); ++position) {
      const std::size_t at = place_of(view_, position);
      float* p = probabilities.address() + at;
      softmax_of(bottom.address() + at, p, view_.length, view_.inner);
      const float label = labels.address()[position];
      if (ignores(spec_.ignore_label, label)) continue;
      const float* weights = row(matrix, label, position);
      for (std::size_t k = 0; k < view_.length; ++k) {
        sum -= double{weights[k]} * std::log(std::max(p[k * view_.inner], kMinProbability));
      }
    }
    *loss.address() = static_cast<float>(sum / divisor(labels));
  }

  void backward(Stream&, DeviceSpan<const float> probabilities, DeviceSpan<const float> labels,
                DeviceSpan<const float> matrix, float weight,
                DeviceSpan<float> bottom_gradient) override {
    check_sizes(labels, matrix);
    const float scale = weight / static_cast<float>(divisor(labels));
    for (std::size_t position = 0; position < view_.positions(); ++position) {
      const std::size_t at = place_of(view_, position);
      const float* p = probabilities.address() + at;
      float* dx = bottom_gradient.address() + at;
      const float label = labels.address()[position];
      const bool is_ignored = ignores(spec_.ignore_label, label);
      const float* weights = is_ignored ? nullptr : row(matrix, label, position);
      float sum = 0;
      for (std::size_t k = 0; !is_ignored && k < view_.length; ++k) sum += weights[k];
      for (std::size_t k = 0; k < view_.length; ++k) {
        dx[k * view_.inner] = is_ignored ? 0 : scale * (p[k * view_.inner] * sum - weights[k]);
      }
    }
  }

 private:
  static constexpr float kMinProbability = 1e-20F;  // Caffe's

  void check_sizes(DeviceSpan<const float> labels, DeviceSpan<const float> matrix) const {
    TAUT_CHECK(labels.size() == view_.positions(), "one label for each position");
    TAUT_CHECK(matrix.size() == view_.length * view_.length, "one weight for each pair of classes");
  }
  [[nodiscard]] const float* row(DeviceSpan<const float> matrix, float label,
                                 std::size_t position) const {
    return matrix.address() + class_of(label, position, view_.length) * view_.length;
  }
  [[nodiscard]] double divisor(DeviceSpan<const float> labels) const {
    const float* first = labels.address();
    const auto counted = std::count_if(first, first + labels.size(), [&](float label) {
      return !ignores(spec_.ignore_label, label);
    });
    return loss_divisor(spec_.normalization, view_.positions(), static_cast<std::size_t>(counted),
                        batch_);
  }

  InfogainLossSpec spec_;
  AxisView view_;
  std::size_t batch_ = 1;
};

class Accuracy final : public AccuracyOp {
 public:
  explicit Accuracy(const AccuracySpec& spec)
      : top_k_(static_cast<std::size_t>(spec.top_k)),
        ignore_label_(spec.ignore_label),
        view_(view_of_scores("Accuracy", spec.shape, spec.axis)) {}

  void forward(Stream&, DeviceSpan<const float> scores, DeviceSpan<const float> labels,
               DeviceSpan<float> accuracy, DeviceSpan<float> by_class) override {
    TAUT_CHECK(labels.size() == view_.positions(), "one label for each position");
    TAUT_CHECK(by_class.empty() || by_class.size() == view_.length, "one accuracy for each class");
    Score all;
    std::vector<Score> of_class(by_class.size());
    for (std::size_t position = 0; position < view_.positions(); ++position) {
      const float* score = scores.address() + place_of(view_, position);
      const float label = labels.address()[position];
      if (ignores(ignore_label_, label)) continue;
      const std::size_t truth = class_of(label, position, view_.length);
      std::size_t rivals = 0;
      for (std::size_t k = 0; k < view_.length; ++k) {
        // Written so that a NaN score counts as a wrong answer, never as a right one.
        const bool below = score[k * view_.inner] < score[truth * view_.inner];
        rivals += k != truth && !below ? 1 : 0;
      }
      all.add(rivals < top_k_);
      if (!of_class.empty()) of_class[truth].add(rivals < top_k_);
    }
    *accuracy.address() = all.share();
    std::ranges::transform(of_class, by_class.address(), &Score::share);
  }

 private:
  struct Score {
    std::size_t right = 0;
    std::size_t counted = 0;

    void add(bool is_right) {
      right += is_right ? 1 : 0;
      ++counted;
    }
    [[nodiscard]] float share() const {
      return static_cast<float>(right) / static_cast<float>(std::max<std::size_t>(counted, 1));
    }
  };

  std::size_t top_k_;
  std::optional<std::int64_t> ignore_label_;
  AxisView view_;
};

}  // namespace

std::unique_ptr<SoftmaxLossOp> make_op(const SoftmaxLossSpec& spec) {
  return std::make_unique<SoftmaxLoss>(spec);
}

std::unique_ptr<InfogainLossOp> make_op(const InfogainLossSpec& spec) {
  return std::make_unique<InfogainLoss>(spec);
}

std::unique_ptr<AccuracyOp> make_op(const AccuracySpec& spec) {
  return std::make_unique<Accuracy>(spec);
}

}  // namespace taut::cpu
