#pragma once

namespace taut {

/// An order of work on a device: what is queued on one stream runs in turn; two streams meet at
/// events only. Thread: one at a time.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// Holds the host until all that was queued is done. It needs no deadline: the device finishes,
  /// or fails. Errors: DeviceError.
  virtual void finish() = 0;
};

/// A point in a stream's work. An event that was never recorded has passed. Thread: record() by one
/// at a time, while no other uses it; the rest by any.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  /// Marks what is queued on `stream` so far.
  virtual void record(Stream& stream) = 0;
  /// Makes what is queued on `stream` from now on wait for the mark; the host goes on at once.
  virtual void wait(Stream& stream) = 0;
  /// Whether the mark has been passed.
  [[nodiscard]] virtual bool query() = 0;
  /// Holds the host until the mark has been passed. Errors: DeviceError.
  virtual void finish() = 0;
};

}  // namespace taut
