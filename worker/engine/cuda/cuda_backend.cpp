#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.hpp"
#include "common/math/codec.hpp"
#include "cuda/capture_gate.hpp"
#include "cuda/kernels/encoding/encode.hpp"
#include "cuda/kernels/encoding/velocity.hpp"
#include "cuda/kernels/reduce.hpp"
#include "cuda/kernels/update.hpp"
#include "cuda/system_driver.hpp"
#include "worker/engine/cuda/fused.hpp"
#include "worker/engine/cuda/module.hpp"
#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut {
namespace {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(const CudaDevice& device)
      : device_(device), event_((device.enter(), cuda::make_event())) {}

  void record(Stream& stream) override {
    cuda::check(cudaEventRecord(event_.get(), on(stream).enter()), "cudaEventRecord");
  }
  void wait(Stream& stream) override {
    cuda::check(cudaStreamWaitEvent(on(stream).enter(), event_.get(), 0), "cudaStreamWaitEvent");
  }
  bool query() override {
    device_.enter();
    if (!cuda::has_passed(event_)) return false;
    device_.check_whole();
    return true;
  }
  void finish() override {
    device_.enter();
    cuda::wait_for(event_);
    device_.check_whole();
  }

 private:
  const CudaDevice& device_;
  cuda::EventHandle event_;
};

/// Tensors are stored in Caffe's order, images as N, C, H, W.
class CudaBackend final : public Backend, public MemoryMeter, public FusingBackend {
 public:
  CudaBackend(int index, cuda::DeviceFacts facts, bool graphs)
      : device_(index, std::move(facts)), graphs_(graphs) {}

  std::string description() const override {
    const cuda::DeviceFacts& facts = device_.facts();
    return fmt::format(
        "CUDA device {}, {}, {:.0f} GiB, CUDA {}, cuDNN {}", device_.index(), facts.name,
        static_cast<double>(facts.memory.value()) / (1024.0 * 1024.0 * 1024.0),
        cuda::version_text(CUDART_VERSION), cuda::cudnn_version_text(cudnnGetVersion()));
  }
  bool shares_host_memory() const override { return false; }
  DeviceMemoryUse memory_use() const override { return device_.memory_use(); }
  void check_usable() override {
    // Any call reports an error that sticks to the device; this one waits for nothing.
    (void)device_.memory_use();
  }
  void set_math(const MathOptions& options) override { device_.set_math(options); }

  DeviceBuffer allocate(Bytes size, BufferKind, std::string_view name) override {
    return device_.allocate(size, name);
  }
  HostBuffer allocate_host(Bytes size) override {
    device_.enter();
    return allocate_pinned(size);
  }
  void pin_host(std::span<std::byte> part) override {
    device_.enter();
    cuda::check(cudaHostRegister(part.data(), part.size(), cudaHostRegisterPortable),
                "cudaHostRegister", fmt::format("{} bytes", part.size()));
  }
  void pin_host_to_read(std::span<const std::byte> part) override {
    device_.enter();
    cuda::check(cudaHostRegister(const_cast<std::byte*>(part.data()), part.size(),
                                 cudaHostRegisterPortable | cudaHostRegisterReadOnly),
                "cudaHostRegister", fmt::format("{} bytes to read", part.size()));
  }
  void unpin_host(std::span<const std::byte> part) noexcept override {
    // Pending copies may still use the memory: the device must be idle.
    const std::unique_lock gate(cuda::captures());
    (void)cudaSetDevice(device_.index());
    (void)cudaDeviceSynchronize();
    if (cudaHostUnregister(const_cast<std::byte*>(part.data())) != cudaSuccess) {
      (void)cudaGetLastError();
    }
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CudaStream>(device_); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(device_); }

  void copy_to_device(Stream& stream, std::span<const float> from, DeviceSpan<float> to) override {
    copy_bytes(stream, from.data(), from.size(), to.address(), to.size(), cudaMemcpyHostToDevice);
  }
  void copy_to_host(Stream& stream, DeviceSpan<const float> from, std::span<float> to) override {
    copy_bytes(stream, from.address(), from.size(), to.data(), to.size(), cudaMemcpyDeviceToHost);
  }
  void copy(Stream& stream, DeviceSpan<const float> from, DeviceSpan<float> to) override {
    copy_bytes(stream, from.address(), from.size(), to.address(), to.size(),
               cudaMemcpyDeviceToDevice);
  }
  void fill(Stream& stream, DeviceSpan<float> to, float value) override {
    cuda::fill(on(stream).enter(), to.address(), cuda_ops::count_of(to), value);
  }
  void add(Stream& stream, DeviceSpan<const float> from, DeviceSpan<float> into) override {
    TAUT_CHECK(from.size() == into.size(), "a sum of different sizes");
    cuda::add(on(stream).enter(), from.address(), into.address(), cuda_ops::count_of(into));
  }
  void weighted_sum(Stream& stream, std::span<const Term> terms, DeviceSpan<float> out) override {
    TAUT_CHECK(!terms.empty(), "a sum of something");
    std::vector<cuda::Scaled> scaled;
    for (const Term& term : terms) {
      TAUT_CHECK(term.values.size() == out.size(), "a sum of different sizes");
      scaled.push_back({term.values.address(), term.factor});
    }
    cuda::weighted_sum(on(stream).enter(), scaled, out.address(), cuda_ops::count_of(out));
  }

  void apply_update(Stream& stream, const DeviceUpdate& update,
                    std::span<const DeviceGradient> gradients, DeviceSpan<float> values,
                    std::span<const DeviceSpan<float>> state) override {
    CudaStream& own = on(stream);
    const std::vector<cuda::Scaled> scaled = scaled_of(gradients, values.size());
    const std::int64_t count = cuda_ops::count_of(values);
    const cuda::UpdateArrays arrays = arrays_of(values, state);
    const auto [scratch] =
        own.scratch<1>({cuda::update_scratch(update.kind, scaled.size(), count)});
    cuda::apply_update(own.enter(), update.kind, update.step, scaled, update.scale, arrays,
                       scratch);
  }
  void apply_average(Stream& stream, std::span<const DeviceGradient> contributions, float share,
                     DeviceSpan<float> values) override {
    CudaStream& own = on(stream);
    const std::vector<cuda::Scaled> scaled = scaled_of(contributions, values.size());
    const std::int64_t count = cuda_ops::count_of(values);
    const auto [scratch] =
        own.scratch<1>({cuda::update_scratch(math::RuleKind::kSgd, scaled.size(), count)});
    cuda::apply_average(own.enter(), scaled, share, values.address(), count, scratch);
  }
  void apply_averages(Stream& stream, std::span<const TableAverage> averages) override {
    std::vector<cuda::ListedAverage> listed;
    for (const TableAverage& one : averages) {
      if (!cuda::can_be_listed(scaled_of(one.contributions, one.values.size()))) {
        apply_average(stream, one.contributions, one.share, one.values);
        continue;
      }
      cuda::ListedAverage& into = listed.emplace_back();
      for (const DeviceGradient& from : one.contributions) {
        into.contributions.push_back(from.values.address());
      }
      into.share = one.share;
      into.values = one.values.address();
      into.count = cuda_ops::count_of(one.values);
    }
    cuda::apply_averages(on(stream).enter(), listed);
  }
  void apply_updates(Stream& stream, std::span<const TableUpdate> updates) override {
    std::vector<cuda::ListedUpdate> listed;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const TableUpdate& one = updates[i];
      const math::RuleKind kind = one.update.kind;
      if (one.gradients.size() != 1 || cuda::needs_scratch(kind, 1)) {
        apply_update(stream, one.update, one.gradients, one.values, one.state);
      } else {
        listed.push_back({.step = one.update.step,
                          .gradient = scaled_of(one.gradients, one.values.size())[0],
                          .scale = one.update.scale,
                          .arrays = arrays_of(one.values, one.state)});
      }
      const bool is_last = i + 1 == updates.size() || updates[i + 1].update.kind != kind;
      if (!is_last) continue;
      cuda::apply_updates(on(stream).enter(), kind, std::exchange(listed, {}));
    }
  }
  bool encodes() const override { return true; }
  void encode(Stream& stream, const SliceEncoding& how, DeviceSpan<const float> values,
              DeviceSpan<float> out, DeviceSpan<float> state) override {
    TAUT_CHECK(out.size_bytes().value() >= math::encoded_bytes(how.encoding, values.size()) &&
                   state.size() == math::state_values(how.encoding, values.size()),
               "memory for what is encoded and for what is kept");
    CudaStream& own = on(stream);
    const std::int64_t count = cuda_ops::count_of(values);
    const auto [scratch] = own.scratch<1>({cuda::encode_scratch(how.encoding, count)});
    cuda::encode(
        own.enter(), how.encoding, how.draw,
        {values.address(), count, reinterpret_cast<std::byte*>(out.address()), state.address()},
        scratch);
  }
  void advance_velocity(Stream& stream, float momentum, float scale, DeviceSpan<float> gradient,
                        DeviceSpan<float> velocity) override {
    CudaStream& own = on(stream);
    const auto [scratch] = own.scratch<1>({cuda::velocity_scratch()});
    cuda::advance_velocity(own.enter(), {momentum, scale}, cuda_ops::count_of(velocity),
                           gradient.address(), velocity.address(), scratch);
  }
  void clear_sent_velocities(Stream& stream, DeviceSpan<const float> residual,
                             DeviceSpan<float> velocity) override {
    cuda::clear_sent_velocities(on(stream).enter(), cuda_ops::count_of(velocity),
                                residual.address(), velocity.address());
  }
  double sum_of_squares(Stream& stream, std::span<const DeviceSpan<const float>> of) override {
    CudaStream& own = on(stream);
    std::size_t largest = 0;
    for (const auto& part : of) {
      largest = std::max(largest, cuda::reduce_scratch({.inner = cuda_ops::count_of(part)}));
    }
    const auto [sum, scratch] = own.scratch<2>({sizeof(double), largest});
    auto* const total = static_cast<double*>(sum);
    cuda::check(cudaMemsetAsync(total, 0, sizeof(double), own.enter()), "cudaMemsetAsync");
    for (const auto& part : of) {
      if (part.empty()) continue;
      cuda::sum_of_squares(own.enter(), part.address(), cuda_ops::count_of(part), total, true,
                           scratch);
    }
    double squares = 0;
    cuda::check(
        cudaMemcpyAsync(&squares, total, sizeof squares, cudaMemcpyDeviceToHost, own.enter()),
        "cudaMemcpyAsync", "a sum of squares");
    own.finish();
    return squares;
  }
  void copy_squares_to_host(Stream& stream, DeviceSpan<const float> of, double& into) override {
    CudaStream& own = on(stream);
    const std::int64_t count = cuda_ops::count_of(of);
    const auto [sum, scratch] =
        own.scratch<2>({sizeof(double), cuda::reduce_scratch({.inner = count})});
    auto* const total = static_cast<double*>(sum);
    cuda::check(cudaMemsetAsync(total, 0, sizeof(double), own.enter()), "cudaMemsetAsync");
    if (!of.empty()) {
      cuda::sum_of_squares(own.enter(), of.address(), count, total, true, scratch);
    }
    cuda::check(cudaMemcpyAsync(&into, total, sizeof into, cudaMemcpyDeviceToHost, own.enter()),
                "cudaMemcpyAsync", "a sum of squares");
  }

  void copy_part(Stream& stream, const PartCopy& part, DeviceSpan<const float> from,
                 DeviceSpan<float> to) override {
    const cuda::AxisView source = cuda_ops::view_along(part.from, part.axis);
    const cuda::AxisView target = cuda_ops::view_along(part.to, part.axis);
    TAUT_CHECK(source.outer == target.outer && source.inner == target.inner,
               "parts of tensors that differ in another axis");
    cuda::copy_rows(on(stream).enter(), from.address() + part.from_offset * source.inner,
                    source.length * source.inner, to.address() + part.to_offset * target.inner,
                    target.length * target.inner, source.outer, part.length * source.inner);
  }
  void reshape(Stream& stream, const Extents&, const Extents&, DeviceSpan<const float> from,
               DeviceSpan<float> to) override {
    copy(stream, from, to);
  }
  void write_tensor(Stream& stream, const Extents&, std::span<const float> from,
                    DeviceSpan<float> to) override {
    copy_to_device(stream, from, to);
  }
  void read_tensor(Stream& stream, const Extents&, DeviceSpan<const float> from,
                   std::span<float> to) override {
    copy_to_host(stream, from, to);
  }

  bool repeats() const override { return graphs_; }
  bool begin_repeat(Stream& stream, std::uint64_t key, Clock clock) override {
    return !graphs_ || on(stream).begin_repeat(key, clock);
  }
  void end_repeat(Stream& stream) override {
    if (graphs_) on(stream).end_repeat();
  }
  void abandon_repeat(Stream& stream) noexcept override {
    if (graphs_) on(stream).abandon_repeat();
  }

  bool fuses() const override { return true; }
#define TAUT_MAKE_FUSED(Spec)                                       \
  std::unique_ptr<Spec::Op> make_fused(const Spec& spec) override { \
    return cuda_ops::make_op(device_, spec);                        \
  }
  TAUT_EACH_FUSED_SPEC(TAUT_MAKE_FUSED)
#undef TAUT_MAKE_FUSED

 protected:
  std::unique_ptr<DeviceOp> make_op(OpSpec spec) override {
    return std::visit(
        [this](const auto* one) -> std::unique_ptr<DeviceOp> {
          return cuda_ops::make_op(device_, *one);
        },
        spec);
  }

 private:
  static void copy_bytes(Stream& stream, const float* from, std::size_t from_count, float* to,
                         std::size_t to_count, cudaMemcpyKind kind) {
    TAUT_CHECK(from_count == to_count, "a copy between different sizes");
    if (from_count == 0 || from == to) return;
    const cudaError_t status =
        cudaMemcpyAsync(to, from, from_count * sizeof(float), kind, on(stream).enter());
    if (status != cudaSuccess) {
      cuda::fail(status, "cudaMemcpyAsync", fmt::format("{} floats", from_count));
    }
  }

  static cuda::UpdateArrays arrays_of(DeviceSpan<float> values,
                                      std::span<const DeviceSpan<float>> state) {
    return {.values = values.address(),
            .first = state.empty() ? nullptr : state[0].address(),
            .second = state.size() < 2 ? nullptr : state[1].address(),
            .count = cuda_ops::count_of(values)};
  }
  static std::vector<cuda::Scaled> scaled_of(std::span<const DeviceGradient> gradients,
                                             std::size_t count) {
    TAUT_CHECK(!gradients.empty(), "one gradient or more");
    std::vector<cuda::Scaled> scaled;
    for (const DeviceGradient& gradient : gradients) {
      TAUT_CHECK(gradient.values.size() == count, "gradients of another size");
      scaled.push_back({gradient.values.address(), gradient.scale});
    }
    return scaled;
  }

  CudaDevice device_;
  bool graphs_;
};

Result<std::unique_ptr<Backend>> open_device(const BackendOptions& options) {
  const cuda::SystemDriver driver;
  TAUT_TRY(cuda::DeviceFacts facts, cuda::choose_device(driver, options.cuda_device));
  try {
    return std::make_unique<CudaBackend>(options.cuda_device, std::move(facts),
                                         options.cuda_graphs);
  } catch (const DeviceError& failure) {
    return make_error(ErrorCode::kUnavailable, failure.what());
  }
}

}  // namespace
}  // namespace taut

extern "C" {

const char* taut_cuda_module_face() {
  return taut::kCudaModuleFace;
}

void taut_cuda_module_open(const taut::BackendOptions& options,
                           taut::Result<std::unique_ptr<taut::Backend>>& into) {
  into = taut::open_device(options);
}
}
