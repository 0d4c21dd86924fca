#include "worker/backend/cpu_dnnl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "worker/backend/backend.hpp"
#include "worker/backend/cpu_parallel.hpp"

namespace taut::dnnl_cpu {
namespace {

using dnnl::memory;
using dnnl::primitive;
using Tag = memory::format_tag;
using Arguments = std::unordered_map<int, memory>;

#if DNNL_VERSION_MAJOR >= 3
using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;

template <class Primitive, class... Arguments>
auto describe(const dnnl::engine& engine, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments...);
}
template <class Primitive, class Forward, class... Arguments>
auto describe_backward(const dnnl::engine& engine, const Forward& forward,
                       const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., forward);
}
#else
using PoolingForward = dnnl::pooling_v2_forward;
using PoolingBackward = dnnl::pooling_v2_backward;

template <class Primitive, class... Arguments>
auto describe(const dnnl::engine& engine, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), engine);
}
template <class Primitive, class Forward, class... Arguments>
auto describe_backward(const dnnl::engine& engine, const Forward& forward,
                       const Arguments&... arguments) {
  return
      typename Primitive::primitive_desc(typename Primitive::desc(arguments...), engine, forward);
}
#endif

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine = [] {
    if (dnnl::engine::get_count(dnnl::engine::kind::cpu) == 0) {
      throw DeviceError("oneDNN offers no CPU engine");
    }
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

memory::desc plain(const memory::dims& dims, Tag tag) {
  return {dims, memory::data_type::f32, tag};
}

/// Memory of the caller's, which is named at each run.
memory foreign(const memory::desc& desc) {
  return {desc, cpu_engine(), DNNL_MEMORY_NONE};
}

void point(memory& at, const float* address) {
  at.set_data_handle(const_cast<float*>(address));  // oneDNN has no memory that is only read
}

/// Turns the library's refusal of a shape into ours.
template <class Make>
auto built(const char* what, const Make& make) {
  try {
    return make();
  } catch (const dnnl::error& failure) {
    throw std::invalid_argument(
        fmt::format("oneDNN {} cannot make a {}: {}", version(), what, failure.message));
  }
}

void execute(const primitive& what, const Arguments& arguments) {
  static thread_local dnnl::stream stream(cpu_engine());
  try {
    what.execute(stream, arguments);
  } catch (const dnnl::error& failure) {
    throw DeviceError(fmt::format("oneDNN {} failed: {}", version(), failure.message));
  }
}

/// A parameter that the caller keeps in Caffe's order and a primitive may want in its own.
class Parameter {
 public:
  Parameter(const memory::desc& callers, const memory::desc& primitives)
      : callers_(foreign(callers)) {
    if (callers == primitives) return;
    own_ = memory(primitives, cpu_engine());
    load_ = dnnl::reorder(callers_, own_);
    store_ = dnnl::reorder(own_, callers_);
  }

  /// The caller's values, ready to be read.
  const memory& loaded(const float* values) {
    point(callers_, values);
    if (!own_) return callers_;
    execute(load_, {{DNNL_ARG_FROM, callers_}, {DNNL_ARG_TO, own_}});
    return own_;
  }
  /// Where the primitive writes; store() then brings it to the caller.
  const memory& target(float* values) {
    point(callers_, values);
    return own_ ? own_ : callers_;
  }
  void store() {
    if (own_) execute(store_, {{DNNL_ARG_FROM, own_}, {DNNL_ARG_TO, callers_}});
  }

 private:
  memory callers_;
  memory own_;
  dnnl::reorder load_;
  dnnl::reorder store_;
};

class Convolution final : public LinearOp {
 public:
  explicit Convolution(const ConvolutionSpec& spec) : spec_(spec) {
    const auto& [bottom, top, window, group, has_bias, bottom_gradient] = spec;
    const memory::desc source = plain({bottom.n, bottom.c, bottom.h, bottom.w}, Tag::nhwc);
    const memory::desc target = plain({top.n, top.c, top.h, top.w}, Tag::nhwc);
    const memory::desc bias = has_bias ? plain({top.c}, Tag::x) : memory::desc();
    const memory::dims weight_dims =
        group == 1 ? memory::dims{top.c, bottom.c, window.kernel_h, window.kernel_w}
                   : memory::dims{group, top.c / group, bottom.c / group, window.kernel_h,
                                  window.kernel_w};
    const memory::desc weights = plain(weight_dims, group == 1 ? Tag::oihw : Tag::goihw);
    const memory::desc any_weights = plain(weight_dims, Tag::any);
    const memory::dims strides{window.stride_h, window.stride_w};
    const memory::dims gaps{window.dilation_h - 1, window.dilation_w - 1};
    const memory::dims pads{window.pad_h, window.pad_w};
    const auto algorithm = dnnl::algorithm::convolution_direct;

    const auto forward = describe<dnnl::convolution_forward>(
        cpu_engine(), dnnl::prop_kind::forward_training, algorithm, source, any_weights, bias,
        target, strides, gaps, pads, pads);
    forward_ = dnnl::convolution_forward(forward);
    forward_weights_.emplace(weights, forward.weights_desc());

    if (bottom_gradient) {
      const auto data = describe_backward<dnnl::convolution_backward_data>(
          cpu_engine(), forward, algorithm, source, any_weights, target, strides, gaps, pads, pads);
      backward_bottom_ = dnnl::convolution_backward_data(data);
      backward_weights_.emplace(weights, data.weights_desc());
    }

    const auto parameters = describe_backward<dnnl::convolution_backward_weights>(
        cpu_engine(), forward, algorithm, source, any_weights, bias, target, strides, gaps, pads,
        pads);
    backward_parameters_ = dnnl::convolution_backward_weights(parameters);
    weights_gradient_.emplace(weights, parameters.diff_weights_desc());
    bottom_ = foreign(source);
    top_ = foreign(target);
    if (has_bias) bias_ = foreign(bias);
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top.address());
    Arguments arguments{{DNNL_ARG_SRC, bottom_},
                        {DNNL_ARG_WEIGHTS, forward_weights_->loaded(weights.address())},
                        {DNNL_ARG_DST, top_}};
    if (spec_.bias) {
      point(bias_, bias.address());
      arguments.emplace(DNNL_ARG_BIAS, bias_);
    }
    execute(forward_, arguments);
  }

  void backward_bottom(Stream& stream, DeviceSpan<const float> top_gradient,
                       DeviceSpan<const float> weights,
                       DeviceSpan<float> bottom_gradient) override {
    TAUT_CHECK(spec_.bottom_gradient, "this convolution was made without a bottom gradient");
    cpu::enter(stream);
    point(top_, top_gradient.address());
    point(bottom_, bottom_gradient.address());
    execute(backward_bottom_, {{DNNL_ARG_DIFF_DST, top_},
                               {DNNL_ARG_WEIGHTS, backward_weights_->loaded(weights.address())},
                               {DNNL_ARG_DIFF_SRC, bottom_}});
  }

  void backward_parameters(Stream& stream, DeviceSpan<const float> bottom,
                           DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                           DeviceSpan<float> bias_gradient) override {
    if (weights_gradient.empty() && bias_gradient.empty()) return;
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top_gradient.address());
    Arguments arguments{
        {DNNL_ARG_SRC, bottom_},
        {DNNL_ARG_DIFF_DST, top_},
        {DNNL_ARG_DIFF_WEIGHTS,
         weights_gradient_->target(wanted(weights_gradient, weights_size(), unwanted_weights_))}};
    if (spec_.bias) {
      point(bias_, wanted(bias_gradient, static_cast<std::size_t>(spec_.top.c), unwanted_bias_));
      arguments.emplace(DNNL_ARG_DIFF_BIAS, bias_);
    }
    execute(backward_parameters_, arguments);
    weights_gradient_->store();
  }

 private:
  [[nodiscard]] std::size_t weights_size() const {
    return static_cast<std::size_t>(spec_.top.c * (spec_.bottom.c / spec_.group) *
                                    spec_.window.kernel_h * spec_.window.kernel_w);
  }
  /// The library writes both gradients or none, so one that nobody wants needs a place too.
  static float* wanted(DeviceSpan<float> gradient, std::size_t size, std::vector<float>& instead) {
    if (!gradient.empty()) return gradient.address();
    instead.resize(size);
    return instead.data();
  }

  ConvolutionSpec spec_;
  primitive forward_;
  primitive backward_bottom_;
  primitive backward_parameters_;
  std::optional<Parameter> forward_weights_;
  std::optional<Parameter> backward_weights_;
  std::optional<Parameter> weights_gradient_;
  memory bottom_;
  memory top_;
  memory bias_;
  std::vector<float> unwanted_weights_;
  std::vector<float> unwanted_bias_;
};

class MaxPooling final : public PoolingOp {
 public:
  explicit MaxPooling(const PoolingSpec& spec) {
    const auto& [bottom, top, window, method] = spec;
    const memory::desc source = plain({bottom.n, bottom.c, bottom.h, bottom.w}, Tag::nhwc);
    const memory::desc target = plain({top.n, top.c, top.h, top.w}, Tag::nhwc);
    const memory::dims strides{window.stride_h, window.stride_w};
    const memory::dims kernel{window.kernel_h, window.kernel_w};
    const memory::dims gaps{0, 0};
    const memory::dims front{window.pad_h, window.pad_w};
    // Caffe rounds up: what the last window lacks is padding behind.
    const memory::dims back{
        behind(bottom.h, top.h, window.kernel_h, window.stride_h, window.pad_h),
        behind(bottom.w, top.w, window.kernel_w, window.stride_w, window.pad_w)};
    const auto algorithm = dnnl::algorithm::pooling_max;
    const auto forward =
        describe<PoolingForward>(cpu_engine(), dnnl::prop_kind::forward_training, algorithm, source,
                                 target, strides, kernel, gaps, front, back);
    const auto backward = describe_backward<PoolingBackward>(
        cpu_engine(), forward, algorithm, source, target, strides, kernel, gaps, front, back);
    forward_ = PoolingForward(forward);
    backward_ = PoolingBackward(backward);
    bottom_ = foreign(source);
    top_ = foreign(target);
    chosen_ = memory(forward.workspace_desc(), cpu_engine());
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<float> top) override {
    cpu::enter(stream);
    point(bottom_, bottom.address());
    point(top_, top.address());
    execute(forward_,
            {{DNNL_ARG_SRC, bottom_}, {DNNL_ARG_DST, top_}, {DNNL_ARG_WORKSPACE, chosen_}});
  }

  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    cpu::enter(stream);
    point(top_, top_gradient.address());
    point(bottom_, bottom_gradient.address());
    execute(
        backward_,
        {{DNNL_ARG_DIFF_DST, top_}, {DNNL_ARG_DIFF_SRC, bottom_}, {DNNL_ARG_WORKSPACE, chosen_}});
  }

 private:
  static std::int64_t behind(std::int64_t bottom, std::int64_t top, std::int64_t kernel,
                             std::int64_t stride, std::int64_t front) {
    return std::max<std::int64_t>((top - 1) * stride + kernel - bottom - front, 0);
  }

  primitive forward_;
  primitive backward_;
  memory bottom_;
  memory top_;
  memory chosen_;  // which element of each window was the largest
};

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  return plain({rows, columns}, transposed ? Tag::ba : Tag::ab);
}

}  // namespace

std::string version() {
  const dnnl_version_t* library = dnnl_version();
  return fmt::format("{}.{}.{}", library->major, library->minor, library->patch);
}

std::unique_ptr<LinearOp> make_convolution(const ConvolutionSpec& spec) {
  return built("convolution", [&] { return std::make_unique<Convolution>(spec); });
}

std::unique_ptr<PoolingOp> make_max_pooling(const PoolingSpec& spec) {
  return built("max pooling", [&] { return std::make_unique<MaxPooling>(spec); });
}

struct Matmul::State {
  primitive matmul;
  memory a, b, bias, c;
};

Matmul::Matmul(const MatmulSpec& spec) : state_(std::make_unique<State>()) {
  built("matrix product", [&] {
    const memory::desc a = matrix(spec.rows, spec.inner, spec.transpose_a);
    const memory::desc b = matrix(spec.inner, spec.columns, spec.transpose_b);
    const memory::desc bias = spec.bias ? matrix(1, spec.columns, false) : memory::desc();
    const memory::desc c = matrix(spec.rows, spec.columns, false);
    state_->matmul = dnnl::matmul(describe<dnnl::matmul>(cpu_engine(), a, b, bias, c));
    state_->a = foreign(a);
    state_->b = foreign(b);
    state_->c = foreign(c);
    if (spec.bias) state_->bias = foreign(bias);
  });
}

Matmul::~Matmul() = default;

void Matmul::run(const float* a, const float* b, const float* bias, float* c) {
  point(state_->a, a);
  point(state_->b, b);
  point(state_->c, c);
  Arguments arguments{
      {DNNL_ARG_SRC, state_->a}, {DNNL_ARG_WEIGHTS, state_->b}, {DNNL_ARG_DST, state_->c}};
  if (state_->bias) {
    point(state_->bias, bias);
    arguments.emplace(DNNL_ARG_BIAS, state_->bias);
  }
  execute(state_->matmul, arguments);
}

struct ImageReorder::State {
  primitive reorder;
  memory from, to;
};

ImageReorder::ImageReorder(const ImageShape& shape, ImageOrder to)
    : state_(std::make_unique<State>()) {
  built("reordering of images", [&] {
    const memory::dims dims{shape.n, shape.c, shape.h, shape.w};
    const bool to_last = to == ImageOrder::kChannelsLast;
    state_->from = foreign(plain(dims, to_last ? Tag::nchw : Tag::nhwc));
    state_->to = foreign(plain(dims, to_last ? Tag::nhwc : Tag::nchw));
    state_->reorder = dnnl::reorder(state_->from, state_->to);
  });
}

ImageReorder::~ImageReorder() = default;

void ImageReorder::run(const float* from, float* to) {
  point(state_->from, from);
  point(state_->to, to);
  execute(state_->reorder, {{DNNL_ARG_FROM, state_->from}, {DNNL_ARG_TO, state_->to}});
}

}  // namespace taut::dnnl_cpu
