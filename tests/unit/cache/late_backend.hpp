#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "worker/engine/plan/wrapped_backend.hpp"

namespace taut::test {

/// A device made of the CPU backend whose faults are those of a careless driver of it:
/// - its memory is its own: the addresses that it gives out are mapped, but nothing may follow
///   them;
/// - what is queued is done as late as events and finish() allow, or at times drawn from a seed, so
///   that a wait that is missing is met with old values;
/// - memory that was just allocated holds NaNs;
/// - what fails when it is done throws in the waiting thread, and what is behind it continues.
/// Thread    any
class LateBackend : public WrappedBackend {
 public:
  struct Options {
    std::uint64_t seed = 0;  // 0: everything as late as can be
    // No block is used again, and oneDNN's layouts differ by processor; untouched pages take none.
    Bytes memory{1024ULL << 20U};
  };

  LateBackend(Backend& cpu, const Options& options);
  ~LateBackend() override;

  std::string description() const override { return "late CPU"; }
  DeviceBuffer allocate(Bytes size, BufferKind kind, std::string_view name) override;
  using WrappedBackend::allocate;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Stream> make_copy_stream() override { return make_stream(); }
  std::unique_ptr<Event> make_event() override;
  void on_call(Stream& stream, DeviceCall call) override;

  /// Work that was queued, and how much of it a caller had to wait for.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  /// How often the host waited for what was not done.
  [[nodiscard]] std::uint64_t waits() const { return waits_; }

 private:
  class LateStream;
  class LateEvent;
  class LateMark;
  struct Queue;
  using QueuePtr = std::shared_ptr<Queue>;

  void wait_for(const QueuePtr& queue, std::uint64_t until);
  void advance(const QueuePtr& queue, std::uint64_t until);
  void advance_some();

  const Options options_;
  std::byte* faces_ = nullptr;   // what callers see
  std::byte* memory_ = nullptr;  // the same bytes, for the device
  std::uint64_t allocated_ = 0;
  std::unique_ptr<Stream> inner_stream_;
  std::recursive_mutex mutex_;  // guards all below
  std::vector<std::weak_ptr<Queue>> queues_;
  std::mt19937_64 random_;
  std::uint64_t calls_ = 0;
  std::uint64_t waits_ = 0;
};

}  // namespace taut::test
