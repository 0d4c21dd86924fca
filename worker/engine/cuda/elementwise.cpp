#include "cuda/kernels/elementwise.hpp"

#include "common/check.hpp"
#include "common/math/philox.hpp"
#include "cuda/kernels/reduce.hpp"
#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/cuda/stream.hpp"
#include "worker/engine/ops/activation_function.hpp"

namespace taut::cuda_ops {

cuda::AxisView view_along(const Extents& shape, std::size_t axis, std::size_t axes) {
  TAUT_CHECK(axis + axes <= shape.size(), "a shape has no such axis");
  cuda::AxisView view;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t& part = i < axis ? view.outer : (i < axis + axes ? view.length : view.inner);
    part *= shape[i];
  }
  return view;
}

namespace {

class Activation final : public ActivationOp {
 public:
  explicit Activation(const ActivationSpec& spec)
      : function_(activation_function(spec)), reads_bottom_(spec.reads_bottom()) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    TAUT_CHECK(bottom.size() == top.size(), "an activation keeps the shape");
    cuda::activation_forward(on(stream).enter(), function_, bottom.address(), top.address(),
                             count_of(top));
  }
  void backward(Stream& stream, Bottom bottom, Top top, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    const MaybeRead at = reads_bottom_ ? MaybeRead(bottom) : MaybeRead(top);
    TAUT_CHECK(at.size() == bottom_gradient.size(), "an activation keeps the shape");
    cuda::activation_backward(on(stream).enter(), function_, at.address(), top_gradient.address(),
                              bottom_gradient.address(), count_of(at));
  }

 private:
  math::Activation function_;
  bool reads_bottom_;
};

class Gelu final : public GeluOp {
 public:
  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    cuda::gelu_forward(on(stream).enter(), bottom.address(), top.address(), count_of(top));
  }
  void backward(Stream& stream, DeviceSpan<const float> bottom,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    cuda::gelu_backward(on(stream).enter(), bottom.address(), top_gradient.address(),
                        bottom_gradient.address(), count_of(bottom));
  }
};

using Bottoms = std::span<const DeviceSpan<const float>>;

void copy_floats(cudaStream_t stream, const float* from, float* to, std::int64_t count) {
  if (from == to) return;
  cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(float),
                              cudaMemcpyDeviceToDevice, stream),
              "cudaMemcpyAsync", "a copy on the device");
}

class Product final : public EltwiseOp {
 public:
  void forward(Stream& stream, Bottoms bottoms, DeviceSpan<float> top) override {
    multiply(on(stream).enter(), bottoms, bottoms.size(), top, nullptr);
  }
  void backward(Stream& stream, Bottoms bottoms, std::size_t which,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    multiply(on(stream).enter(), bottoms, which, bottom_gradient, top_gradient.address());
  }

 private:
  /// out = `first` times all bottoms except the one that is left out.
  static void multiply(cudaStream_t stream, Bottoms bottoms, std::size_t left_out,
                       DeviceSpan<float> out, const float* first) {
    const float* from = first;
    for (std::size_t k = 0; k < bottoms.size(); ++k) {
      if (k == left_out) continue;
      const float* x = bottoms[k].address();
      if (from != nullptr) cuda::multiply(stream, from, x, out.address(), count_of(out));
      from = from == nullptr ? x : out.address();
    }
    copy_floats(stream, from, out.address(), count_of(out));
  }
};

class Max final : public EltwiseOp {
 public:
  void forward(Stream& stream, Bottoms bottoms, DeviceSpan<float> top) override {
    cudaStream_t queue = on(stream).enter();
    copy_floats(queue, bottoms[0].address(), top.address(), count_of(top));
    for (const DeviceSpan<const float>& bottom : bottoms.subspan(1)) {
      cuda::max_into(queue, bottom.address(), top.address(), count_of(top));
    }
  }
  void backward(Stream& stream, Bottoms bottoms, std::size_t which,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    cudaStream_t queue = on(stream).enter();
    copy_floats(queue, top_gradient.address(), bottom_gradient.address(),
                count_of(bottom_gradient));
    for (std::size_t k = 0; k < bottoms.size(); ++k) {
      if (k == which) continue;
      cuda::max_mask(queue, bottoms[which].address(), bottoms[k].address(), which < k,
                     bottom_gradient.address(), count_of(bottom_gradient));
    }
  }
};

class Affine final : public AffineOp {
 public:
  explicit Affine(const AffineSpec& spec)
      : spec_(spec), view_(view_along(spec.shape, spec.axis, spec.factors.size())) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> factors,
               DeviceSpan<const float> summands, DeviceSpan<float> top) override {
    cuda::affine_forward(on(stream).enter(), view_, bottom.address(),
                         spec_.scale ? factors.address() : nullptr,
                         spec_.bias ? summands.address() : nullptr, top.address());
  }

  void backward(Stream& stream, Bottom bottom, DeviceSpan<const float> factors,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient,
                DeviceSpan<float> factors_gradient, DeviceSpan<float> summands_gradient) override {
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    if (!factors_gradient.empty() || !summands_gradient.empty()) {
      const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(view_)});
      cuda::affine_parameter_gradients(queue, view_, bottom.address(), top_gradient.address(),
                                       factors_gradient.address(), summands_gradient.address(),
                                       scratch);
    }
    if (bottom_gradient.empty()) return;
    if (!spec_.scale) {
      copy_floats(queue, top_gradient.address(), bottom_gradient.address(), view_.count());
      return;
    }
    cuda::affine_forward(queue, view_, top_gradient.address(), factors.address(), nullptr,
                         bottom_gradient.address());
  }

 private:
  AffineSpec spec_;
  cuda::AxisView view_;
};

class PRelu final : public PReluOp {
 public:
  explicit PRelu(const PReluSpec& spec)
      : view_(spec.shared ? cuda::AxisView{.inner = count_of(spec.shape)}
                          : view_along(spec.shape, 1)) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> slopes,
               DeviceSpan<float> top) override {
    cuda::prelu_forward(on(stream).enter(), view_, bottom.address(), slopes.address(),
                        top.address());
  }
  void backward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> slopes,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient,
                DeviceSpan<float> slopes_gradient) override {
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    if (!slopes_gradient.empty()) {
      const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(view_)});
      cuda::prelu_slope_gradients(queue, view_, bottom.address(), top_gradient.address(),
                                  slopes_gradient.address(), scratch);
    }
    if (bottom_gradient.empty()) return;
    cuda::prelu_backward(queue, view_, bottom.address(), slopes.address(), top_gradient.address(),
                         bottom_gradient.address());
  }

 private:
  cuda::AxisView view_;
};

/// The mask is drawn again in the backward pass instead of being stored: random numbers cost less
/// than memory.
class Dropout final : public DropoutOp {
 public:
  explicit Dropout(const DropoutSpec& spec)
      : draw_{.key = spec.seed ^ math::name_stream("dropout", 7),
              .stream = std::uint64_t{spec.slot} << 32U | spec.layer,
              .ratio = spec.ratio},
        count_(count_of(spec.shape)) {}

  void forward(Stream& stream, Clock clock, DeviceSpan<const float> bottom,
               DeviceSpan<float> top) override {
    multiply(stream, on(stream).clock_at(clock), bottom, top);
  }
  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    multiply(stream, on(stream).clock_of_forward(), top_gradient, bottom_gradient);
  }

 private:
  void multiply(Stream& stream, const std::int64_t* clock, DeviceSpan<const float> from,
                DeviceSpan<float> to) const {
    TAUT_CHECK(count_of(from) == count_ && count_of(to) == count_,
               "a dropout keeps the shape that it was made for");
    cuda::dropout(on(stream).enter(), draw_, clock, from.address(), to.address(), count_);
  }

  cuda::DropoutDraw draw_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<ActivationOp> make_op(CudaDevice&, const ActivationSpec& spec) {
  return std::make_unique<Activation>(spec);
}
std::unique_ptr<EltwiseOp> make_op(CudaDevice&, const EltwiseSpec& spec) {
  if (spec.kind == EltwiseKind::kProduct) return std::make_unique<Product>();
  return std::make_unique<Max>();
}
std::unique_ptr<AffineOp> make_op(CudaDevice&, const AffineSpec& spec) {
  return std::make_unique<Affine>(spec);
}
std::unique_ptr<PReluOp> make_op(CudaDevice&, const PReluSpec& spec) {
  return std::make_unique<PRelu>(spec);
}
std::unique_ptr<GeluOp> make_op(CudaDevice&, const GeluSpec&) {
  return std::make_unique<Gelu>();
}
std::unique_ptr<DropoutOp> make_op(CudaDevice&, const DropoutSpec& spec) {
  return std::make_unique<Dropout>(spec);
}

}  // namespace taut::cuda_ops
