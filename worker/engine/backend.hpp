#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/device_error.hpp"
#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/engine/device_memory.hpp"
#include "worker/engine/ops/list.hpp"
#include "worker/engine/ops/update.hpp"
#include "worker/engine/stream.hpp"

namespace taut {

/// The number format of products and convolutions; parameters, gradients and the tensors between
/// layers stay float32.
enum class Precision : std::uint8_t {
  kFloat32,
  kTf32,      // float32 with 10 bits of fraction in the factors, if the device supports it
  kBfloat16,  // factors in bfloat16, sums in float32
  kFloat16,   // factors in float16, sums in float32
};

struct MathOptions {
  Precision precision = Precision::kFloat32;
  /// kFloat16: gradients are multiplied by this before they become float16, and the results are
  /// divided by it; 0: as large as each gradient allows.
  float loss_scale = 0;
  /// Gives the same bits in every run, if the device has (slower) algorithms that guarantee it.
  bool deterministic = false;
  /// The limit of device memory for everything; 0: all of the device's. Operations limit their
  /// workspace to a share of it unless `deterministic`: choosing an algorithm by the memory
  /// available would change the bits.
  Bytes budget{0};
};

/// One device: its memory, its streams, and the operations that layers are made of. No code outside
/// a backend knows which device it is.
/// Errors    DeviceError from everything that touches the device
/// Thread    any; each stream by one thread at a time, each operation on one stream at a time
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// The device in a few words, for logs: "CPU, oneDNN 2.6.0, 1 thread".
  [[nodiscard]] virtual std::string description() const = 0;
  /// True if device memory is the host's: worker/engine/cpu/cpu_backend.hpp's host_view then works.
  [[nodiscard]] virtual bool shares_host_memory() const = 0;

  /// Checks that the device still works: after some failures every later call to it fails in this
  /// process.
  /// Errors    DeviceError: it no longer works
  virtual void check_usable() {}

  /// Sets how operations created from now on compute. The CPU always computes in float32 and
  /// deterministically.
  virtual void set_math(const MathOptions& options) = 0;

  /// Uninitialised memory, aligned for any element and any vector instruction.
  /// name      names the block in errors: "gradient of fc6"
  /// Errors    DeviceError: the block, the bytes required and the bytes free
  [[nodiscard]] virtual DeviceBuffer allocate(Bytes size, BufferKind kind,
                                              std::string_view name) = 0;
  [[nodiscard]] DeviceBuffer allocate(Bytes size, std::string_view name = "a block") {
    return allocate(size, BufferKind::kActivation, name);
  }
  [[nodiscard]] DeviceBuffer allocate_floats(std::size_t count, BufferKind kind,
                                             std::string_view name) {
    return allocate(Bytes(count * sizeof(float)), kind, name);
  }
  [[nodiscard]] DeviceBuffer allocate_floats(std::size_t count, std::string_view name = "a block") {
    return allocate_floats(count, BufferKind::kActivation, name);
  }
  /// Uninitialised host memory for copies to and from the device that run in parallel with the
  /// rest.
  [[nodiscard]] virtual HostBuffer allocate_host(Bytes size) = 0;
  /// Makes memory with another owner as fast as allocate_host's, until unpin_host() of the same
  /// part.
  /// Errors    DeviceError: the system has no more memory that may be pinned
  virtual void pin_host(std::span<std::byte> part) = 0;
  /// As pin_host(), for memory that this process may only read: copies from it, none to it.
  /// Errors    DeviceError: this device cannot
  virtual void pin_host_to_read(std::span<const std::byte> part) = 0;
  virtual void unpin_host(std::span<const std::byte> part) noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  /// A stream for copies between the device and the host only, which run in parallel with the
  /// compute.
  [[nodiscard]] virtual std::unique_ptr<Stream> make_copy_stream() { return make_stream(); }
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;

  /// Copies between equally long spans. Host memory must not change until the stream has passed.
  /// With host memory from allocate_host() or pin_host() the call returns at once; with any other
  /// it may wait until the copy is done.
  virtual void copy_to_device(Stream&, std::span<const float> from, DeviceSpan<float> to) = 0;
  virtual void copy_to_host(Stream&, DeviceSpan<const float> from, std::span<float> to) = 0;
  virtual void copy(Stream&, DeviceSpan<const float> from, DeviceSpan<float> to) = 0;
  virtual void fill(Stream&, DeviceSpan<float> to, float value) = 0;
  /// into += from
  virtual void add(Stream&, DeviceSpan<const float> from, DeviceSpan<float> into) = 0;
  /// out = the sum of factor * values over the terms, at least one, all of out's size; out may be
  /// one of them.
  virtual void weighted_sum(Stream&, std::span<const Term> terms, DeviceSpan<float> out) = 0;

  /// Updates values as a shard does, on the device: math::apply_update and math::apply_average.
  virtual void apply_update(Stream&, const DeviceUpdate& update,
                            std::span<const DeviceGradient> gradients, DeviceSpan<float> values,
                            std::span<const DeviceSpan<float>> state) = 0;
  virtual void apply_average(Stream&, std::span<const DeviceGradient> contributions, float share,
                             DeviceSpan<float> values) = 0;
  /// apply_update() for each table; they share no memory, so a device may apply all at once.
  virtual void apply_updates(Stream& stream, std::span<const TableUpdate> updates) {
    for (const TableUpdate& one : updates) {
      apply_update(stream, one.update, one.gradients, one.values, one.state);
    }
  }
  /// apply_average() for each table, in the same way.
  virtual void apply_averages(Stream& stream, std::span<const TableAverage> averages) {
    for (const TableAverage& one : averages) {
      apply_average(stream, one.contributions, one.share, one.values);
    }
  }
  /// Whether the backend has the three functions below.
  [[nodiscard]] virtual bool encodes() const { return false; }
  /// Encodes a slice of an update on the device: math::encode(), with the same bytes.
  /// out    [encoded_bytes, rounded up to whole floats]; the rest after the bytes is undefined
  /// state  [state_values]
  /// REQUIRES: encodes(), at least one value, and not float32.
  virtual void encode(Stream&, const SliceEncoding& /*how*/, DeviceSpan<const float> /*values*/,
                      DeviceSpan<float> /*out*/, DeviceSpan<float> /*state*/) {
    TAUT_CHECK(false, "a device that encodes");
  }
  /// math::advance_velocity(), in place.
  virtual void advance_velocity(Stream&, float /*momentum*/, float /*scale*/,
                                DeviceSpan<float> /*gradient*/, DeviceSpan<float> /*velocity*/) {
    TAUT_CHECK(false, "a device that encodes");
  }
  virtual void clear_sent_velocities(Stream&, DeviceSpan<const float> /*residual*/,
                                     DeviceSpan<float> /*velocity*/) {
    TAUT_CHECK(false, "a device that encodes");
  }

  /// The sum of the squares of all elements, in double. Waits for the stream.
  [[nodiscard]] virtual double sum_of_squares(Stream&,
                                              std::span<const DeviceSpan<const float>> of) = 0;

  /// Overload for one span, asynchronous: `into` holds the sum when the stream has passed; host
  /// memory as for copy_to_host().
  virtual void copy_squares_to_host(Stream&, DeviceSpan<const float> of, double& into) = 0;

  /// Copies a part of a tensor into a part of another.
  virtual void copy_part(Stream&, const PartCopy& part, DeviceSpan<const float> from,
                         DeviceSpan<float> to) = 0;
  /// Copies a tensor into one of another shape: the elements keep their sequence in Caffe's order.
  virtual void reshape(Stream&, const Extents& from_shape, const Extents& to_shape,
                       DeviceSpan<const float> from, DeviceSpan<float> to) = 0;

  /// Copies a tensor from or to Caffe's order (rows of rows; images as N, C, H, W), independent of
  /// the device's order.
  virtual void write_tensor(Stream&, const Extents& shape, std::span<const float> from,
                            DeviceSpan<float> to) = 0;
  virtual void read_tensor(Stream&, const Extents& shape, DeviceSpan<const float> from,
                           std::span<float> to) = 0;

  /// Whether begin_repeat() is worth calling.
  [[nodiscard]] virtual bool repeats() const { return false; }
  /// Between begin_repeat() and end_repeat() a caller queues the same work as before under this
  /// key: the same operations on the same memory, at another clock, without waits and without
  /// copies to or from the host. Returns false if the device has queued all of it from a recording;
  /// the caller then continues without end_repeat().
  [[nodiscard]] virtual bool begin_repeat(Stream&, std::uint64_t /*key*/, Clock) { return true; }
  virtual void end_repeat(Stream&) {}
  /// Replaces end_repeat() if an exception was thrown in between.
  virtual void abandon_repeat(Stream&) noexcept {}

  /// From here to end_cycle() the calls are the same, on the same memory, in every cycle with this
  /// name, so a device may use what it learns from the first one in later ones.
  /// compute  the stream of all calls but copies
  virtual void begin_cycle(Stream& /*compute*/, std::string_view /*name*/) {}
  virtual void end_cycle() {}
  /// A device that must know a cycle's calls in advance runs `calls` and records the device calls
  /// without executing them; nothing that they would wait for need be ready. Any other device does
  /// nothing.
  /// Errors    those of `calls`; invalid: a cycle that the device has too little memory for
  [[nodiscard]] virtual Result<void> dry_run(Stream& /*compute*/, std::string_view /*name*/,
                                             const std::function<Result<void>()>& /*calls*/) {
    return ok();
  }
  [[nodiscard]] virtual bool in_dry_run() const { return false; }
  /// Whether the device needs a dry run: a cycle's calls must then have a fixed order and use the
  /// same memory, and no other thread may make calls in between.
  [[nodiscard]] virtual bool needs_dry_run() const { return false; }

  /// The operation that a spec describes.
  /// Errors    std::invalid_argument: a shape that the device does not support
  template <class Spec>
  [[nodiscard]] std::unique_ptr<typename Spec::Op> make(const Spec& spec) {
    static_assert(std::is_constructible_v<OpSpec, const Spec*>, "ops/list.hpp must name the spec");
    std::unique_ptr<DeviceOp> op = make_op(&spec);
    return std::unique_ptr<typename Spec::Op>(static_cast<typename Spec::Op*>(op.release()));
  }

 protected:
  /// An operation of the spec's type Op. Errors: as make()'s.
  [[nodiscard]] virtual std::unique_ptr<DeviceOp> make_op(OpSpec spec) = 0;
};

enum class DeviceKind : std::uint8_t { kAuto, kCpu, kCuda };

struct BackendOptions {
  DeviceKind device = DeviceKind::kAuto;
  int threads = 0;          // of the CPU's computation; 0: OpenMP's default
  int cuda_device = 0;      // its index in the driver's order
  bool cuda_graphs = true;  // repeated calls are recorded and replayed
};

struct BackendChoice {
  std::unique_ptr<Backend> backend;
  std::string reason;  // one line for the user: which device was chosen, and why no better one
};

/// Opens a device. AUTO takes CUDA if it is built in and a device responds, else the CPU.
/// Errors    unavailable: CUDA was requested by name and is missing; invalid: a thread count below
///           0
[[nodiscard]] Result<BackendChoice> make_backend(const BackendOptions& options);

}  // namespace taut
