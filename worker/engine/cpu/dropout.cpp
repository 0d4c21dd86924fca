#include <cstddef>
#include <optional>

#include "common/math/philox.hpp"
#include "worker/engine/cpu/dnnl/dnnl.hpp"
#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/cpu/parallel.hpp"

namespace taut::cpu {
namespace {

std::size_t element_count(const Extents& shape) {
  std::size_t product = 1;
  for (const std::int64_t extent : shape) product *= static_cast<std::size_t>(extent);
  return product;
}

class Dropout final : public DropoutOp {
 public:
  explicit Dropout(const DropoutSpec& spec) : spec_(spec), mask_(element_count(spec.shape)) {
    if (!is_channels_last(spec.shape)) return;
    drawn_ = OwnMemory(mask_.size());
    reorder_.emplace(image_shape(spec.shape), dnnl_cpu::ImageOrder::kChannelsLast);
  }

  OpMemory own_memory() const override { return {bytes_of({&mask_}), bytes_of({&drawn_})}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    lend_in_turn(kept, {&mask_});
    lend_in_turn(scratch, {&drawn_});
  }

  void forward(Stream& stream, Clock clock, DeviceSpan<const float> bottom,
               DeviceSpan<float> top) override {
    enter(stream);
    draw(clock, reorder_ ? drawn_.data() : mask_.data());
    if (reorder_) reorder_->run(drawn_.data(), mask_.data());
    multiply(bottom, top);
  }

  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    multiply(top_gradient, bottom_gradient);
  }

 private:
  /// Fills `mask`, in Caffe's order, with 0 for dropped elements and 1 / (1 - ratio) for kept ones.
  /// Key, stream and counter hold seed, (slot, layer) and (clock, index), so no two draws use the
  /// same number; the name separates them from the initial values under the same seed.
  void draw(Clock clock, float* mask) const {
    const std::uint64_t key = spec_.seed ^ math::name_stream("dropout", 7);
    const std::uint64_t draws = std::uint64_t{spec_.slot} << 32U | spec_.layer;
    const std::uint64_t first = static_cast<std::uint64_t>(clock.value()) << 32U;
    const float kept = 1 / (1 - spec_.ratio);
    const std::size_t count = mask_.size();
    parallel_ranges((count + 3) / 4, kElementGrain / 16, [&](std::size_t begin, std::size_t end) {
      for (std::size_t block = begin; block < end; ++block) {
        const auto random = math::Philox::at(key, draws, first | block);
        for (std::size_t i = 4 * block; i < count && i < 4 * block + 4; ++i) {
          const float unit = math::unit_float(random.words[i % 4]);
          mask[i] = unit < spec_.ratio ? 0 : kept;
        }
      }
    });
  }

  void multiply(DeviceSpan<const float> from, DeviceSpan<float> to) const {
    TAUT_CHECK(from.size() == mask_.size() && to.size() == mask_.size(),
               "a dropout keeps the shape that it was made for");
    const float* source = from.address();
    float* target = to.address();
    const float* mask = mask_.data();
    parallel_ranges(mask_.size(), kElementGrain, [=](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) target[i] = source[i] * mask[i];
    });
  }

  DropoutSpec spec_;
  OwnMemory mask_;   // in the order of the tensors
  OwnMemory drawn_;  // in Caffe's order, where that differs
  std::optional<dnnl_cpu::ImageReorder> reorder_;
};

}  // namespace

std::unique_ptr<DropoutOp> make_op(const DropoutSpec& spec) {
  return std::make_unique<Dropout>(spec);
}

}  // namespace taut::cpu
