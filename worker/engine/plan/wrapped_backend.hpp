#pragma once

#include <memory>
#include <string>

#include "worker/engine/backend.hpp"
#include "worker/engine/fused_ops.hpp"
#include "worker/engine/plan/device_call.hpp"

namespace taut {

/// A backend in front of another one: every operation becomes a DeviceCall, and a derived class
/// decides when, where and whether it runs. It may allocate addresses that only it can map to
/// memory.
/// Thread    as the wrapped backend's
class WrappedBackend : public Backend, public FusingBackend {
 public:
  /// inner  outlives this
  explicit WrappedBackend(Backend& inner) : inner_(inner) {}

  /// Handles one call; `stream` is from make_stream().
  virtual void on_call(Stream& stream, DeviceCall call) = 0;

  std::string description() const override { return inner_.description(); }
  bool shares_host_memory() const override { return false; }
  void check_usable() override { inner_.check_usable(); }
  void set_math(const MathOptions& options) override { inner_.set_math(options); }
  HostBuffer allocate_host(Bytes size) override { return inner_.allocate_host(size); }
  std::unique_ptr<Stream> make_stream() override { return inner_.make_stream(); }
  std::unique_ptr<Stream> make_copy_stream() override { return inner_.make_copy_stream(); }
  std::unique_ptr<Event> make_event() override { return inner_.make_event(); }
  void pin_host(std::span<std::byte> part) override { inner_.pin_host(part); }
  void pin_host_to_read(std::span<const std::byte> part) override { inner_.pin_host_to_read(part); }
  void unpin_host(std::span<const std::byte> part) noexcept override { inner_.unpin_host(part); }

  void copy_to_device(Stream&, std::span<const float> from, DeviceSpan<float> to) override;
  void copy_to_host(Stream&, DeviceSpan<const float> from, std::span<float> to) override;
  void copy(Stream&, DeviceSpan<const float> from, DeviceSpan<float> to) override;
  void fill(Stream&, DeviceSpan<float> to, float value) override;
  void add(Stream&, DeviceSpan<const float> from, DeviceSpan<float> into) override;
  void weighted_sum(Stream&, std::span<const Term> terms, DeviceSpan<float> out) override;
  void apply_update(Stream&, const DeviceUpdate& update, std::span<const DeviceGradient> gradients,
                    DeviceSpan<float> values, std::span<const DeviceSpan<float>> state) override;
  void apply_average(Stream&, std::span<const DeviceGradient> contributions, float share,
                     DeviceSpan<float> values) override;
  bool encodes() const override { return inner_.encodes(); }
  void encode(Stream&, const SliceEncoding& how, DeviceSpan<const float> values,
              DeviceSpan<float> out, DeviceSpan<float> state) override;
  void advance_velocity(Stream&, float momentum, float scale, DeviceSpan<float> gradient,
                        DeviceSpan<float> velocity) override;
  void clear_sent_velocities(Stream&, DeviceSpan<const float> residual,
                             DeviceSpan<float> velocity) override;
  double sum_of_squares(Stream&, std::span<const DeviceSpan<const float>> of) override;
  void copy_squares_to_host(Stream&, DeviceSpan<const float> of, double& into) override;
  void copy_part(Stream&, const PartCopy& part, DeviceSpan<const float> from,
                 DeviceSpan<float> to) override;
  void reshape(Stream&, const Extents& from_shape, const Extents& to_shape,
               DeviceSpan<const float> from, DeviceSpan<float> to) override;
  void write_tensor(Stream&, const Extents& shape, std::span<const float> from,
                    DeviceSpan<float> to) override;
  void read_tensor(Stream&, const Extents& shape, DeviceSpan<const float> from,
                   std::span<float> to) override;

  bool fuses() const override { return fusing(inner_) != nullptr; }
#define TAUT_WRAP_FUSED(Spec) std::unique_ptr<Spec::Op> make_fused(const Spec& spec) override;
  TAUT_EACH_FUSED_SPEC(TAUT_WRAP_FUSED)
#undef TAUT_WRAP_FUSED

 protected:
  [[nodiscard]] Backend& inner() {
    return inner_;
  }
  std::unique_ptr<DeviceOp> make_op(OpSpec spec) override;

 private:
  Backend& inner_;
};

}  // namespace taut
