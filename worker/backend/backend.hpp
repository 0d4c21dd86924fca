#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/device_error.hpp"
#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/backend/device_memory.hpp"
#include "worker/backend/ops.hpp"
#include "worker/backend/ops_channel.hpp"
#include "worker/backend/ops_elementwise.hpp"
#include "worker/backend/ops_loss.hpp"
#include "worker/backend/ops_sequence.hpp"
#include "worker/backend/ops_shape.hpp"
#include "worker/backend/ops_update.hpp"
#include "worker/backend/stream.hpp"

namespace taut {

/// In what numbers products and convolutions are computed; parameters, gradients and all that layers
/// hand to each other stay float32.
enum class Precision : std::uint8_t {
  kFloat32,
  kTf32,      // float32 with 10 bits of fraction in the factors, where the device has it
  kBfloat16,  // factors in bfloat16, sums in float32
  kFloat16,   // factors in float16, sums in float32
};

struct MathOptions {
  Precision precision = Precision::kFloat32;
  /// kFloat16: gradients are multiplied by it before they become float16, and what comes of them is
  /// divided by it; 0: as large as each gradient allows.
  float loss_scale = 0;
  /// The same bits in every run, where the device has slower algorithms that promise it.
  bool deterministic = false;
};

/// One device: its memory, its streams, and the operations that layers are made of. Nothing outside
/// of a backend knows which device it is.
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
  /// True where device memory is the host's: worker/backend/cpu_backend.hpp's host_view then works.
  [[nodiscard]] virtual bool shares_host_memory() const = 0;

  /// How operations that are made from now on compute. The CPU computes in float32 whatever is asked
  /// for, and always deterministically.
  virtual void set_math(const MathOptions& options) = 0;

  /// Uninitialised memory, aligned for any element and any vector instruction.
  /// what      names the block where there is no room for it: "gradient of fc6"
  /// Errors    DeviceError: names the block, the bytes that it needs and those that are free
  [[nodiscard]] virtual DeviceBuffer allocate(Bytes size, std::string_view what) = 0;
  [[nodiscard]] DeviceBuffer allocate(Bytes size) { return allocate(size, "a block"); }
  [[nodiscard]] DeviceBuffer allocate_floats(std::size_t count, std::string_view what = "a block") {
    return allocate(Bytes(count * sizeof(float)), what);
  }
  /// Uninitialised host memory for copies to and from the device that run beside everything else.
  [[nodiscard]] virtual HostBuffer allocate_host(Bytes size) = 0;
  /// Makes memory of somebody else as good as allocate_host's until unpin_host() of the same part.
  /// Errors    DeviceError: the system has no more memory that may be pinned
  virtual void pin_host(std::span<std::byte> part) = 0;
  virtual void unpin_host(std::span<std::byte> part) noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  /// A stream for copies between the device and the host alone, which run beside the computation.
  [[nodiscard]] virtual std::unique_ptr<Stream> make_copy_stream() { return make_stream(); }
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;

  /// Copies between equally long spans. Host memory must stay as it is until the stream has passed.
  /// With host memory from allocate_host() or pin_host() the caller goes on at once; with any other
  /// the call may wait until the copy is done.
  virtual void copy_to_device(Stream&, std::span<const float> from, DeviceSpan<float> to) = 0;
  virtual void copy_to_host(Stream&, DeviceSpan<const float> from, std::span<float> to) = 0;
  virtual void copy(Stream&, DeviceSpan<const float> from, DeviceSpan<float> to) = 0;
  virtual void fill(Stream&, DeviceSpan<float> to, float value) = 0;
  /// into += from
  virtual void add(Stream&, DeviceSpan<const float> from, DeviceSpan<float> into) = 0;
  /// out = the sum of factor * values over the terms, at least one, all of out's size; out may be
  /// one of them.
  virtual void weighted_sum(Stream&, std::span<const Term> terms, DeviceSpan<float> out) = 0;

  /// What a shard does with a slice, on the device; as math::apply_update and math::apply_average.
  virtual void apply_update(Stream&, const DeviceUpdate& update,
                            std::span<const DeviceGradient> gradients, DeviceSpan<float> values,
                            std::span<const DeviceSpan<float>> state) = 0;
  virtual void apply_average(Stream&, std::span<const DeviceGradient> contributions, float share,
                             DeviceSpan<float> values) = 0;
  /// The sum of the squares of all elements, in double. Waits for the stream.
  [[nodiscard]] virtual double sum_of_squares(Stream&,
                                              std::span<const DeviceSpan<const float>> of) = 0;

  /// The same of one span, which lies in `into` when the stream has passed: host memory as for
  /// copy_to_host().
  virtual void copy_squares_to_host(Stream&, DeviceSpan<const float> of, double& into) = 0;

  /// Copies a part of a tensor into a part of another.
  virtual void copy_part(Stream&, const PartCopy& part, DeviceSpan<const float> from,
                         DeviceSpan<float> to) = 0;
  /// Copies a tensor into one of another shape: the elements follow each other in Caffe's order.
  virtual void reshape(Stream&, const Extents& from_shape, const Extents& to_shape,
                       DeviceSpan<const float> from, DeviceSpan<float> to) = 0;

  /// Copies a tensor from or to Caffe's order (rows of rows; images as N, C, H, W), whatever order
  /// the device keeps it in.
  virtual void write_tensor(Stream&, const Extents& shape, std::span<const float> from,
                            DeviceSpan<float> to) = 0;
  virtual void read_tensor(Stream&, const Extents& shape, DeviceSpan<const float> from,
                           std::span<float> to) = 0;

  /// Whether begin_repeat() is worth calling.
  [[nodiscard]] virtual bool repeats() const { return false; }
  /// Between these two a caller queues what it has queued under this key before: the same operations on
  /// the same memory, at another clock; it waits for nothing, and copies to or from no host. False: the
  /// device has queued it all by itself, from a recording, and the caller goes on without end_repeat().
  [[nodiscard]] virtual bool begin_repeat(Stream&, std::uint64_t /*key*/, Clock) { return true; }
  virtual void end_repeat(Stream&) {}
  /// In the place of end_repeat() where something was thrown in between.
  virtual void abandon_repeat(Stream&) noexcept {}

  /// From here to end_cycle() the calls are the same, on the same memory, as between any other two
  /// calls of this name: what a device learns of the first it may use for the others.
  /// compute  the stream of all calls but copies
  virtual void begin_cycle(Stream& /*compute*/, std::string_view /*name*/) {}
  virtual void end_cycle() {}
  /// A device that has to know a cycle's calls before the first one lets `calls` make them: they are
  /// noted and not done, and nothing that they would wait for need be there. Any other device does
  /// nothing.
  /// Errors    those of `calls`; invalid: a cycle that the device has no memory for
  [[nodiscard]] virtual Result<void> rehearse(Stream& /*compute*/, std::string_view /*name*/,
                                              const std::function<Result<void>()>& /*calls*/) {
    return ok();
  }
  [[nodiscard]] virtual bool is_rehearsing() const { return false; }
  /// Whether it is such a device: a cycle's calls then come in one order, on the same memory, and no
  /// other thread makes any in between.
  [[nodiscard]] virtual bool needs_rehearsal() const { return false; }

  /// Errors of all of these: std::invalid_argument for a shape that the device cannot work with.
  [[nodiscard]] virtual std::unique_ptr<LinearOp> convolution(const ConvolutionSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<PoolingOp> pooling(const PoolingSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<LinearOp> inner_product(const InnerProductSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<ActivationOp> activation(const ActivationSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<EltwiseOp> eltwise(EltwiseKind) = 0;
  [[nodiscard]] virtual std::unique_ptr<AffineOp> affine(const AffineSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<PReluOp> prelu(const PReluSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<BatchNormOp> batch_norm(const BatchNormSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<LrnOp> lrn(const LrnSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<ReductionOp> reduction(const ReductionSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<ArgMaxOp> arg_max(const ArgMaxSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<DropoutOp> dropout(const DropoutSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<SoftmaxOp> softmax(const SoftmaxSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<SoftmaxLossOp> softmax_loss(const SoftmaxLossSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<PairLossOp> pair_loss(const PairLossSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<HingeLossOp> hinge_loss(const HingeLossSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<ContrastiveLossOp> contrastive_loss(
      const ContrastiveLossSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<AccuracyOp> accuracy(const AccuracySpec&) = 0;

  [[nodiscard]] virtual std::unique_ptr<EmbedOp> embed(const EmbedSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<PositionEmbedOp> position_embed(const SequenceShape&) = 0;
  [[nodiscard]] virtual std::unique_ptr<RecurrentOp> recurrent(const RecurrentSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<LayerNormOp> layer_norm(const LayerNormSpec&) = 0;
  [[nodiscard]] virtual std::unique_ptr<GeluOp> gelu() = 0;
  [[nodiscard]] virtual std::unique_ptr<AttentionOp> attention(const AttentionSpec&) = 0;
};

enum class DeviceKind : std::uint8_t { kAuto, kCpu, kCuda };

struct BackendOptions {
  DeviceKind device = DeviceKind::kAuto;
  int threads = 0;          // of the CPU's computation; 0: as many as OpenMP would take
  int cuda_device = 0;      // which, in the order of the driver
  bool cuda_graphs = true;  // what repeats is recorded and replayed
};

struct BackendChoice {
  std::unique_ptr<Backend> backend;
  std::string reason;  // one line for the user: what was chosen, and why nothing better was
};

/// Opens a device. AUTO takes CUDA where it is built in and a device answers, else the CPU.
/// Errors    unavailable: CUDA was asked for by name and is not there; invalid: a thread count
/// below 0
[[nodiscard]] Result<BackendChoice> make_backend(const BackendOptions& options);

}  // namespace taut
