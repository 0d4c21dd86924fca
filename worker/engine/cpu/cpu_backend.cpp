#include "worker/engine/cpu/cpu_backend.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <variant>

#include "common/log.hpp"
#include "common/math/momentum_correction.hpp"
#include "common/system/memory.hpp"
#include "worker/engine/cpu/dnnl/dnnl.hpp"
#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/parallel.hpp"
#include "worker/engine/memory_use.hpp"
#include "worker/engine/task_stream.hpp"

namespace taut {
namespace cpu {

bool is_channels_last(const Extents& shape) {
  return shape.size() == 4 && shape[1] > 1 && shape[2] * shape[3] > 1;
}

ImageShape image_shape(const Extents& shape) {
  TAUT_CHECK(shape.size() == 4, "only tensors of rank 4 are images");
  return {shape[0], shape[1], shape[2], shape[3]};
}

}  // namespace cpu

namespace {

constexpr std::size_t kAlignment = 64;            // a cache line, and the widest vector
constexpr std::uint64_t kMaxBytes = 1ULL << 40U;  // for one block; more is a mistake

/// The bytes allocated as device memory, in whole blocks, for the whole process: all its backends
/// share its memory, and a block may outlive the backend that allocated it.
std::atomic<std::uint64_t> given_out = 0;

void* new_block(Bytes size, std::string_view what) {
  const std::size_t whole = (size.value() + kAlignment - 1) / kAlignment * kAlignment;
  void* address = size.value() <= kMaxBytes ? std::aligned_alloc(kAlignment, whole) : nullptr;
  if (address == nullptr) {
    throw DeviceError(
        fmt::format("CPU: no memory for {} of {} bytes; use a smaller batch", what, size.value()));
  }
  return address;
}

void free_block(void*, void* block) noexcept {
  std::free(block);
}

void free_device_block(void*, void* block) noexcept {
  given_out -= malloc_usable_size(block);
  std::free(block);
}

class CpuBackend final : public Backend, public MemoryMeter {
 public:
  explicit CpuBackend(int threads) : threads_(threads) {}

  std::string description() const override {
    const int threads = threads_ > 0 ? threads_ : omp_get_max_threads();
    return fmt::format("CPU, oneDNN {}, {} thread{}", dnnl_cpu::version(), threads,
                       threads == 1 ? "" : "s");
  }
  bool shares_host_memory() const override { return true; }

  DeviceMemoryUse memory_use() const override { return {Bytes(given_out), available_memory()}; }

  void set_math(const MathOptions& options) override {
    if (options.precision == Precision::kFloat32) return;
    log::warn("the solver requests another precision, but the CPU computes in float32");
  }

  DeviceBuffer allocate(Bytes size, BufferKind, std::string_view name) override {
    if (size.value() == 0) return {};
    void* const block = new_block(size, name);
    given_out += malloc_usable_size(block);
    return {block, size, free_device_block};
  }
  HostBuffer allocate_host(Bytes size) override {
    if (size.value() == 0) return {};
    return {new_block(size, "a block"), size, free_block};
  }
  void pin_host(std::span<std::byte>) override {}
  void pin_host_to_read(std::span<const std::byte>) override {}
  void unpin_host(std::span<const std::byte>) noexcept override {}
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<cpu::InlineStream>(threads_);
  }
  std::unique_ptr<Stream> make_copy_stream() override { return std::make_unique<TaskStream>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<HostEvent>(); }

  void copy_to_device(Stream& stream, std::span<const float> from, DeviceSpan<float> to) override {
    copy_elements(stream, from, host_view(to));
  }
  void copy_to_host(Stream& stream, DeviceSpan<const float> from, std::span<float> to) override {
    copy_elements(stream, host_view(from), to);
  }
  void copy(Stream& stream, DeviceSpan<const float> from, DeviceSpan<float> to) override {
    copy_elements(stream, host_view(from), host_view(to));
  }
  void fill(Stream&, DeviceSpan<float> to, float value) override {
    std::ranges::fill(host_view(to), value);
  }
  void add(Stream& stream, DeviceSpan<const float> from, DeviceSpan<float> into) override {
    TAUT_CHECK(from.size() == into.size(), "a sum of different sizes");
    cpu::enter(stream);
    const float* source = from.address();
    float* target = into.address();
    cpu::parallel_ranges(from.size(), cpu::kElementGrain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) target[i] += source[i];
    });
  }

  void weighted_sum(Stream& stream, std::span<const Term> terms, DeviceSpan<float> out) override {
    cpu::enter(stream);
    cpu::weighted_sum(terms, out);
  }
  void apply_update(Stream& stream, const DeviceUpdate& update,
                    std::span<const DeviceGradient> gradients, DeviceSpan<float> values,
                    std::span<const DeviceSpan<float>> state) override {
    cpu::enter(stream);
    cpu::apply_update(update, gradients, values, state);
  }
  void apply_average(Stream& stream, std::span<const DeviceGradient> contributions, float share,
                     DeviceSpan<float> values) override {
    cpu::enter(stream);
    cpu::apply_average(contributions, share, values);
  }
  bool encodes() const override { return true; }
  void encode(Stream& stream, const SliceEncoding& how, DeviceSpan<const float> values,
              DeviceSpan<float> out, DeviceSpan<float> state) override {
    cpu::enter(stream);
    cpu::encode(how, host_view(values), host_view(out), host_view(state));
  }
  void advance_velocity(Stream& stream, float momentum, float scale, DeviceSpan<float> gradient,
                        DeviceSpan<float> velocity) override {
    cpu::enter(stream);
    const std::span<float> at = host_view(gradient);
    math::advance_velocity(momentum, scale, at, host_view(velocity), at.data());
  }
  void clear_sent_velocities(Stream& stream, DeviceSpan<const float> residual,
                             DeviceSpan<float> velocity) override {
    cpu::enter(stream);
    math::clear_sent_velocities(host_view(residual), velocity.address());
  }
  double sum_of_squares(Stream& stream, std::span<const DeviceSpan<const float>> of) override {
    cpu::enter(stream);
    return cpu::sum_of_squares(of);
  }
  void copy_squares_to_host(Stream& stream, DeviceSpan<const float> of, double& into) override {
    cpu::enter(stream);
    into = cpu::sum_of_squares(std::span(&of, 1));
  }
  void copy_part(Stream& stream, const PartCopy& part, DeviceSpan<const float> from,
                 DeviceSpan<float> to) override {
    cpu::enter(stream);
    cpu::copy_part(part, from.address(), to.address());
  }
  void reshape(Stream& stream, const Extents& from_shape, const Extents& to_shape,
               DeviceSpan<const float> from, DeviceSpan<float> to) override {
    cpu::enter(stream);
    cpu::reshape(from_shape, to_shape, from, to);
  }

  void write_tensor(Stream& stream, const Extents& shape, std::span<const float> from,
                    DeviceSpan<float> to) override {
    move_tensor(stream, shape, from, host_view(to), dnnl_cpu::ImageOrder::kChannelsLast);
  }
  void read_tensor(Stream& stream, const Extents& shape, DeviceSpan<const float> from,
                   std::span<float> to) override {
    move_tensor(stream, shape, host_view(from), to, dnnl_cpu::ImageOrder::kChannelsFirst);
  }

 protected:
  std::unique_ptr<DeviceOp> make_op(OpSpec spec) override {
    enter();
    return std::visit(
        [](const auto* one) -> std::unique_ptr<DeviceOp> { return cpu::make_op(*one); }, spec);
  }

 private:
  static void copy_elements(Stream& stream, std::span<const float> from, std::span<float> to) {
    TAUT_CHECK(from.size() == to.size(), "a copy between different sizes");
    if (auto* const tasks = dynamic_cast<TaskStream*>(&stream)) {
      tasks->post([from, to] { std::ranges::copy(from, to.begin()); });
    } else {
      std::ranges::copy(from, to.begin());
    }
  }

  static void move_tensor(Stream& stream, const Extents& shape, std::span<const float> from,
                          std::span<float> to, dnnl_cpu::ImageOrder order) {
    TAUT_CHECK(from.size() == to.size(), "a tensor copied between different sizes");
    if (!cpu::is_channels_last(shape)) {
      copy_elements(stream, from, to);
      return;
    }
    cpu::enter(stream);
    const ImageShape image = cpu::image_shape(shape);
    TAUT_CHECK(image.count() == from.size(), "a tensor of another shape");
    dnnl_cpu::ImageReorder(image, order).run(from.data(), to.data());
  }

  /// oneDNN tailors its primitives to the thread count of the thread that creates them.
  void enter() const { cpu::InlineStream(threads_).enter(); }

  int threads_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options) {
  return std::make_unique<CpuBackend>(options.threads);
}

}  // namespace taut
