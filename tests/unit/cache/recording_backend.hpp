#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "worker/engine/plan/wrapped_backend.hpp"

namespace taut::test {

/// A backend that records like CUDA's: what comes under one key runs as it is for two times; the
/// third time it is taken down with its addresses and arguments, and from then on only that is
/// done. Anything in a recording that a device could not repeat on its own throws std::logic_error.
/// Thread    one at a time
class RecordingBackend final : public WrappedBackend {
 public:
  using WrappedBackend::allocate;
  using WrappedBackend::WrappedBackend;

  DeviceBuffer allocate(Bytes size, BufferKind kind, std::string_view name) override {
    return inner().allocate(size, kind, name);
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<Outside>(*this, inner().make_event());
  }
  void on_call(Stream& stream, DeviceCall call) override {
    std::vector<std::byte*> addresses;
    for (const Operand& operand : call.operands) addresses.push_back(operand.address);
    if (recording_ == nullptr) return call.run(stream, addresses);
    if (&stream != recorded_ || call.kind != CallKind::kCompute || !call.host_source.empty() ||
        !call.host_target.empty()) {
      throw std::logic_error("a recording with a copy");
    }
    recording_->calls.push_back({std::move(call), std::move(addresses)});
  }

  bool repeats() const override { return true; }
  bool begin_repeat(Stream& stream, std::uint64_t key, Clock) override {
    no_recording();
    Repeat& repeat = repeats_[key];
    if (repeat.is_ready) {
      replay(stream, repeat);
      return false;
    }
    if (++repeat.passes <= 2) return true;
    recording_ = &repeat;
    recorded_ = &stream;
    return true;
  }
  void end_repeat(Stream& stream) override {
    if (recording_ == nullptr) return;
    Repeat& repeat = *std::exchange(recording_, nullptr);
    repeat.is_ready = true;
    replay(stream, repeat);
  }
  void abandon_repeat(Stream&) noexcept override { recording_ = nullptr; }

  /// Calls that came out of recordings.
  [[nodiscard]] std::uint64_t replayed() const { return replayed_; }

 private:
  struct Taken {
    DeviceCall call;
    std::vector<std::byte*> addresses;
  };
  struct Repeat {
    int passes = 0;
    bool is_ready = false;
    std::vector<Taken> calls;
  };
  class Outside final : public Event {
   public:
    Outside(const RecordingBackend& backend, std::unique_ptr<Event> event)
        : backend_(backend), event_(std::move(event)) {}
    void record(Stream& stream) override {
      backend_.no_recording();
      event_->record(stream);
    }
    void wait(Stream& stream) override {
      backend_.no_recording();
      event_->wait(stream);
    }
    bool query() override { return event_->query(); }
    void finish() override { event_->finish(); }

   private:
    const RecordingBackend& backend_;
    std::unique_ptr<Event> event_;
  };

  void no_recording() const {
    if (recording_ != nullptr) throw std::logic_error("streams meet in a recording");
  }
  void replay(Stream& stream, const Repeat& repeat) {
    for (const Taken& taken : repeat.calls) taken.call.run(stream, taken.addresses);
    replayed_ += repeat.calls.size();
  }

  std::map<std::uint64_t, Repeat> repeats_;
  Repeat* recording_ = nullptr;
  const Stream* recorded_ = nullptr;
  std::uint64_t replayed_ = 0;
};

}  // namespace taut::test
