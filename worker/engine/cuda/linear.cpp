#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "common/check.hpp"
#include "cuda/kernels/half.hpp"
#include "cuda/kernels/reduce.hpp"
#include "cuda/matmul.hpp"
#include "worker/engine/cuda/fused.hpp"
#include "worker/engine/cuda/own_memory.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut::cuda_ops {
namespace {

using cuda::Numbers;

/// Converts factors to the number format of a product, and its results back to float32. Gradients
/// that become float16 are scaled first, or small ones would vanish.
class Factors {
 public:
  explicit Factors(CudaDevice& device) : numbers_(device.numbers()) {
    if (numbers_ != Numbers::kFloat16) return;
    scales_ = device.allocate(Bytes(2 * sizeof(float)), "the scales of factors");
    fixed_scale_ = device.math().loss_scale;
  }

  [[nodiscard]] Numbers numbers() const { return numbers_; }
  [[nodiscard]] bool is_half() const { return cuda::is_half(numbers_); }
  /// Bytes of `count` converted factors; 0 if they are not converted.
  [[nodiscard]] std::size_t bytes(std::int64_t count) const {
    return is_half() ? static_cast<std::size_t>(count) * 2 : 0;
  }

  [[nodiscard]] const void* convert(cudaStream_t stream, const float* from, void* into,
                                    std::int64_t count) const {
    if (!is_half()) return from;
    cuda::to_half(stream, numbers_, from, into, count);
    return into;
  }
  /// A gradient; results computed from it are divided by scale() again.
  [[nodiscard]] const void* convert_gradient(cudaStream_t stream, const float* from, void* into,
                                             std::int64_t count, void* scratch) {
    if (numbers_ != Numbers::kFloat16) return convert(stream, from, into, count);
    if (fixed_scale_ > 0) {
      cuda::fill(stream, scale_address(), 1, fixed_scale_);
    } else {
      cuda::scale_to(stream, from, count, kTarget, scale_address(), scratch);
    }
    cuda::to_half(stream, numbers_, from, into, count, scale_address());
    return into;
  }
  /// The factor that is not a gradient, in a product whose sums of `length` terms must fit
  /// float16; results computed from it are divided by value_scale() again.
  [[nodiscard]] const void* convert_value(cudaStream_t stream, const float* from, void* into,
                                          std::int64_t count, std::int64_t length, void* scratch) {
    if (numbers_ != Numbers::kFloat16) return convert(stream, from, into, count);
    const float target = std::min(1.0F, kMaxSum / kTarget / static_cast<float>(length));
    cuda::scale_to(stream, from, count, target, value_scale_address(), scratch);
    cuda::to_half(stream, numbers_, from, into, count, value_scale_address());
    return into;
  }
  [[nodiscard]] std::size_t gradient_scratch() const {
    return numbers_ == Numbers::kFloat16 ? cuda::magnitude_scratch() : 0;
  }
  /// nullptr: results need no division.
  [[nodiscard]] const float* scale() const { return scale_address(); }
  [[nodiscard]] const float* value_scale() const { return value_scale_address(); }

 private:
  [[nodiscard]] float* scale_address() const { return scales_.as<float>().address(); }
  [[nodiscard]] float* value_scale_address() const {
    return numbers_ == Numbers::kFloat16 ? scale_address() + 1 : nullptr;
  }

  /// The target for the largest gradient: far enough below float16's 65504 that sums over a
  /// kernel's channels fit too.
  static constexpr float kTarget = 0.0625F;
  /// The bound of a sum over all places of all images, within float16's range.
  static constexpr float kMaxSum = 32768;

  Numbers numbers_;
  float fixed_scale_ = 0;
  DeviceBuffer scales_;  // float16: for a gradient, and for the other factor
};

/// A top's gradient in 16 bits, which backward_parameters() leaves in scratch memory for the
/// backward_bottom() that follows it directly.
class ConvertedGradient {
 public:
  /// lent  lent scratch memory keeps its contents; empty: the stream's own scratch memory, which
  ///       another operation may use in between
  void leave(const CudaStream& stream, DeviceSpan<const float> gradient, const void* at,
             DeviceSpan<float> lent) {
    stream_ = &stream;
    gradient_ = gradient.address();
    at_ = at;
    lent_ = lent.address();
    uses_ = stream.scratch_uses();
  }
  /// Whether the gradient is still at `at`: only backward_bottom() has taken scratch memory since.
  [[nodiscard]] bool take(const CudaStream& stream, DeviceSpan<const float> gradient,
                          const void* at, DeviceSpan<float> lent) {
    return std::exchange(stream_, nullptr) == &stream && gradient_ == gradient.address() &&
           at_ == at && lent_ == lent.address() &&
           (!lent.empty() || uses_ + 1 == stream.scratch_uses());
  }

 private:
  const CudaStream* stream_ = nullptr;
  const float* gradient_ = nullptr;
  const void* at_ = nullptr;
  const float* lent_ = nullptr;
  std::uint64_t uses_ = 0;
};

cuda::ConvolutionKey key_of(const ConvolutionSpec& spec, const CudaDevice& device) {
  cuda::ConvolutionKey key;
  key.n = spec.bottom.n;
  key.c = spec.bottom.c;
  key.h = spec.bottom.h;
  key.w = spec.bottom.w;
  key.top_c = spec.top.c;
  key.top_h = spec.top.h;
  key.top_w = spec.top.w;
  key.kernel_h = spec.window.kernel_h;
  key.kernel_w = spec.window.kernel_w;
  key.stride_h = spec.window.stride_h;
  key.stride_w = spec.window.stride_w;
  key.pad_h = spec.window.pad_h;
  key.pad_w = spec.window.pad_w;
  key.dilation_h = spec.window.dilation_h;
  key.dilation_w = spec.window.dilation_w;
  key.group = spec.group;
  key.numbers = device.numbers();
  key.deterministic = device.math().deterministic;
  key.to_bottom = spec.bottom_gradient;
  key.workspace_limit = device.workspace_limit();
  // A measurement needs extra memory, for which a budget has no room.
  key.is_measured = !key.deterministic && device.math().budget == Bytes(0);
  return key;
}

class Convolution final : public LinearOp {
 public:
  /// relu  whether a ReLU follows the bias
  Convolution(CudaDevice& device, const ConvolutionSpec& spec, bool relu)
      : factors_(device),
        convolution_(device.cudnn(), device.convolutions(), key_of(spec, device)),
        bottom_count_(static_cast<std::int64_t>(spec.bottom.count())),
        top_count_(static_cast<std::int64_t>(spec.top.count())),
        weight_count_(spec.top.c * (spec.bottom.c / spec.group) * spec.window.kernel_h *
                      spec.window.kernel_w),
        channels_{.outer = spec.top.n, .length = spec.top.c, .inner = spec.top.h * spec.top.w},
        bias_(spec.bias),
        relu_(relu),
        runs_backwards_(spec.runs_backwards) {}

  OpMemory own_memory() const override {
    return {{},
            scratch_bytes({convolution_.workspace(), factors_.bytes(bottom_count_),
                           factors_.bytes(weight_count_), factors_.bytes(top_count_),
                           factors_.gradient_scratch()})};
  }
  void lend(DeviceSpan<float>, DeviceSpan<float> scratch) override { lent_ = scratch; }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    check(bottom, weights, top);
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [workspace, x, w, y, found] = own.scratch<5>(
        {convolution_.workspace(), factors_.bytes(bottom_count_), factors_.bytes(weight_count_),
         factors_.bytes(top_count_), factors_.gradient_scratch()},
        lent_);
    const void* from =
        runs_backwards_
            ? factors_.convert_gradient(queue, bottom.address(), x, bottom_count_, found)
            : factors_.convert(queue, bottom.address(), x, bottom_count_);
    const void* by = factors_.convert(queue, weights.address(), w, weight_count_);
    convolution_.forward(own.cudnn(), from, by, target(top, y), workspace);
    if (runs_backwards_) {
      widen(queue, y, top, factors_.scale());
    } else {
      widen(queue, y, top, nullptr, nullptr, overflow(own));
    }
    const bool adds_bias = bias_ && !bias.empty();
    if (!adds_bias && !relu_) return;
    cuda::affine_forward(queue, channels_, top.address(), nullptr,
                         adds_bias ? bias.address() : nullptr, top.address(), relu_);
  }

  void backward_bottom(Stream& stream, DeviceSpan<const float> top_gradient,
                       DeviceSpan<const float> weights,
                       DeviceSpan<float> bottom_gradient) override {
    TAUT_CHECK(convolution_.key().to_bottom, "a bottom's gradient that was not requested");
    check(bottom_gradient, weights, top_gradient);
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [dy, workspace, w, dx, found] = own.scratch<5>(
        {factors_.bytes(top_count_), convolution_.workspace(), factors_.bytes(weight_count_),
         factors_.bytes(bottom_count_), factors_.gradient_scratch()},
        lent_);
    const void* from = dy;
    if (!converted_.take(own, top_gradient, dy, lent_) || !factors_.is_half()) {
      from = runs_backwards_
                 ? factors_.convert(queue, top_gradient.address(), dy, top_count_)
                 : factors_.convert_gradient(queue, top_gradient.address(), dy, top_count_, found);
    }
    const void* by = factors_.convert(queue, weights.address(), w, weight_count_);
    convolution_.backward_bottom(own.cudnn(), from, by, target(bottom_gradient, dx), workspace);
    if (runs_backwards_) {
      widen(queue, dx, bottom_gradient, nullptr, nullptr, overflow(own));
    } else {
      widen(queue, dx, bottom_gradient, factors_.scale());
    }
  }

  void backward_parameters(Stream& stream, DeviceSpan<const float> bottom,
                           DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                           DeviceSpan<float> bias_gradient) override {
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    if (!bias_gradient.empty()) {
      const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(channels_)});
      cuda::channel_sums(queue, channels_, top_gradient.address(), bias_gradient.address(),
                         scratch);
    }
    if (weights_gradient.empty()) return;
    check(bottom, weights_gradient, top_gradient);
    const auto [dy, workspace, x, dw, found] = own.scratch<5>(
        {factors_.bytes(top_count_), convolution_.workspace(), factors_.bytes(bottom_count_),
         factors_.bytes(weight_count_), factors_.gradient_scratch()},
        lent_);
    // cuDNN writes float16, so both factors must be scaled: a sum over all places of all images.
    const std::int64_t places = channels_.outer * channels_.inner;
    const auto bring = [&, found = found](DeviceSpan<const float> given, void* into,
                                          std::int64_t count, bool is_gradient) {
      return is_gradient
                 ? factors_.convert_gradient(queue, given.address(), into, count, found)
                 : factors_.convert_value(queue, given.address(), into, count, places, found);
    };
    const void* from = bring(bottom, x, bottom_count_, runs_backwards_);
    const void* by = bring(top_gradient, dy, top_count_, !runs_backwards_);
    convolution_.backward_weights(own.cudnn(), from, by, target(weights_gradient, dw), workspace);
    widen(queue, dw, weights_gradient, factors_.scale(), factors_.value_scale());
    // A deconvolution converts it as a value, with another scale.
    if (!runs_backwards_) converted_.leave(own, top_gradient, dy, lent_);
  }

 private:
  template <class A, class B, class C>
  void check(DeviceSpan<A> bottom, DeviceSpan<B> weights, DeviceSpan<C> top) const {
    TAUT_CHECK(count_of(bottom) == bottom_count_ && count_of(weights) == weight_count_ &&
                   count_of(top) == top_count_,
               "a convolution keeps the shapes that it was made for");
  }
  /// The memory that cuDNN writes: 16-bit results go to scratch memory first.
  [[nodiscard]] void* target(DeviceSpan<float> final, void* scratch) const {
    return factors_.is_half() ? scratch : final.address();
  }
  /// Where a kernel reports a result that is too large for float16 and would become infinite;
  /// nullptr if that cannot happen.
  [[nodiscard]] cuda::Fault* overflow(CudaStream& stream) const {
    return factors_.numbers() == Numbers::kFloat16 ? stream.fault() : nullptr;
  }
  void widen(cudaStream_t queue, const void* half, DeviceSpan<float> into, const float* scale,
             const float* other_scale = nullptr, cuda::Fault* fault = nullptr) const {
    if (!factors_.is_half()) return;
    cuda::from_half(queue, factors_.numbers(), half, into.address(), count_of(into), scale,
                    other_scale, fault);
  }

  Factors factors_;
  cuda::Convolution convolution_;
  std::int64_t bottom_count_;
  std::int64_t top_count_;
  std::int64_t weight_count_;
  cuda::AxisView channels_;  // of the top
  ConvertedGradient converted_;
  bool bias_;
  bool relu_;
  bool runs_backwards_;
  DeviceSpan<float> lent_;  // scratch memory
};

class InnerProduct final : public LinearOp {
 public:
  InnerProduct(CudaDevice& device, const InnerProductSpec& spec)
      : spec_(spec),
        factors_(device),
        forward_(device.cublas_lt(), product(device, {.rows = spec.rows,
                                                      .inner = spec.inputs,
                                                      .columns = spec.outputs,
                                                      .transpose_b = !spec.transpose,
                                                      .bias = spec.bias})),
        to_bottom_(device.cublas_lt(), product(device, {.rows = spec.rows,
                                                        .inner = spec.outputs,
                                                        .columns = spec.inputs,
                                                        .transpose_b = spec.transpose})),
        to_weights_(device.cublas_lt(),
                    product(device, {.rows = spec.transpose ? spec.inputs : spec.outputs,
                                     .inner = spec.rows,
                                     .columns = spec.transpose ? spec.outputs : spec.inputs,
                                     .transpose_a = true})),
        columns_{.outer = spec.rows, .length = spec.outputs, .inner = 1} {}

  OpMemory own_memory() const override {
    return {{},
            scratch_bytes({product_workspace(), factors_.bytes(inputs()), factors_.bytes(outputs()),
                           factors_.bytes(weights_count()), factors_.gradient_scratch()})};
  }
  void lend(DeviceSpan<float>, DeviceSpan<float> scratch) override { lent_ = scratch; }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    check(bottom, weights, top);
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [workspace, x, w] = own.scratch<3>(
        {product_workspace(), factors_.bytes(inputs()), factors_.bytes(weights_count())}, lent_);
    const void* from = factors_.convert(queue, bottom.address(), x, inputs());
    const void* by = factors_.convert(queue, weights.address(), w, weights_count());
    forward_.run(queue, from, by, bias.address(), top.address(), workspace);
  }

  void backward_bottom(Stream& stream, DeviceSpan<const float> top_gradient,
                       DeviceSpan<const float> weights,
                       DeviceSpan<float> bottom_gradient) override {
    check(bottom_gradient, weights, top_gradient);
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [dy, workspace, w, found] =
        own.scratch<4>({factors_.bytes(outputs()), product_workspace(),
                        factors_.bytes(weights_count()), factors_.gradient_scratch()},
                       lent_);
    const void* from = dy;
    if (!converted_.take(own, top_gradient, dy, lent_) || !factors_.is_half()) {
      from = factors_.convert_gradient(queue, top_gradient.address(), dy, outputs(), found);
    }
    const void* by = factors_.convert(queue, weights.address(), w, weights_count());
    to_bottom_.run(queue, from, by, nullptr, bottom_gradient.address(), workspace);
    unscale(queue, bottom_gradient);
  }

  void backward_parameters(Stream& stream, DeviceSpan<const float> bottom,
                           DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                           DeviceSpan<float> bias_gradient) override {
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    if (!bias_gradient.empty()) {
      const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(columns_)});
      cuda::channel_sums(queue, columns_, top_gradient.address(), bias_gradient.address(), scratch);
    }
    if (weights_gradient.empty()) return;
    check(bottom, weights_gradient, top_gradient);
    const auto [dy, workspace, x, found] =
        own.scratch<4>({factors_.bytes(outputs()), product_workspace(), factors_.bytes(inputs()),
                        factors_.gradient_scratch()},
                       lent_);
    const void* from =
        factors_.convert_gradient(queue, top_gradient.address(), dy, outputs(), found);
    const void* by = factors_.convert(queue, bottom.address(), x, inputs());
    to_weights_.run(queue, spec_.transpose ? by : from, spec_.transpose ? from : by, nullptr,
                    weights_gradient.address(), workspace);
    unscale(queue, weights_gradient);
    converted_.leave(own, top_gradient, dy, lent_);
  }

 private:
  static cuda::MatmulSpec product(const CudaDevice& device, cuda::MatmulSpec spec) {
    spec.numbers = device.numbers();
    spec.deterministic = device.math().deterministic;
    spec.workspace_limit = device.product_workspace();
    return spec;
  }
  template <class A, class B, class C>
  void check(DeviceSpan<A> bottom, DeviceSpan<B> weights, DeviceSpan<C> top) const {
    TAUT_CHECK(count_of(bottom) == inputs() && count_of(weights) == weights_count() &&
                   count_of(top) == outputs(),
               "an inner product keeps the shapes that it was made for");
  }
  void unscale(cudaStream_t queue, DeviceSpan<float> values) const {
    if (factors_.scale() == nullptr) return;
    cuda::divide_by(queue, values.address(), count_of(values), factors_.scale());
  }
  [[nodiscard]] std::size_t product_workspace() const {
    return std::max({forward_.workspace(), to_bottom_.workspace(), to_weights_.workspace()});
  }
  [[nodiscard]] std::int64_t inputs() const { return spec_.rows * spec_.inputs; }
  [[nodiscard]] std::int64_t outputs() const { return spec_.rows * spec_.outputs; }
  [[nodiscard]] std::int64_t weights_count() const { return spec_.inputs * spec_.outputs; }

  InnerProductSpec spec_;
  Factors factors_;
  cuda::Matmul forward_;
  cuda::Matmul to_bottom_;
  cuda::Matmul to_weights_;
  cuda::AxisView columns_;  // of the top
  ConvertedGradient converted_;
  DeviceSpan<float> lent_;  // scratch memory
};

}  // namespace

std::unique_ptr<LinearOp> make_op(CudaDevice& device, const ConvolutionSpec& spec) {
  return std::make_unique<Convolution>(device, spec, false);
}
std::unique_ptr<LinearOp> make_op(CudaDevice& device, const RectifiedConvolutionSpec& spec) {
  return std::make_unique<Convolution>(device, spec.convolution, true);
}

std::unique_ptr<LinearOp> make_op(CudaDevice& device, const InnerProductSpec& spec) {
  return std::make_unique<InnerProduct>(device, spec);
}

}  // namespace taut::cuda_ops
