#pragma once

#include <memory>

namespace taut {

/// A point in a stream's work that the host can wait for while later work continues.
/// Thread: the stream's.
class Mark {
 public:
  Mark() = default;
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  virtual ~Mark() = default;

  /// Marks the work queued so far.
  virtual void record() = 0;
  /// Whether the mark is known to have been passed; the host does not wait. Errors: as finish().
  [[nodiscard]] virtual bool passed() = 0;
  /// Blocks the host until the mark has been passed, or longer. Errors: as Stream::finish().
  virtual void finish() = 0;
};

/// A queue of work on a device: work on one stream runs in order; two streams synchronize at events
/// only. Thread: one at a time.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// Blocks the host until all queued work is done. It needs no deadline: the device finishes or
  /// fails. Errors: DeviceError.
  virtual void finish() = 0;

  /// stream  outlives the mark. A stream without its own marks is waited for as a whole.
  [[nodiscard]] virtual std::unique_ptr<Mark> make_mark();
};

/// The mark of a stream without its own marks.
class WholeStream final : public Mark {
 public:
  explicit WholeStream(Stream& stream) : stream_(stream) {}
  void record() override {}
  bool passed() override { return false; }
  void finish() override { stream_.finish(); }

 private:
  Stream& stream_;
};

inline std::unique_ptr<Mark> Stream::make_mark() {
  return std::make_unique<WholeStream>(*this);
}

/// A point in a stream's work. An event that was never recorded has passed. Thread: record() by one
/// thread at a time, while no other uses the event; the rest by any.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  /// Marks the work queued on `stream` so far.
  virtual void record(Stream& stream) = 0;
  /// Work queued on `stream` from now on waits for the mark; the host does not.
  virtual void wait(Stream& stream) = 0;
  /// Whether the mark has been passed.
  [[nodiscard]] virtual bool query() = 0;
  /// Blocks the host until the mark has been passed. Errors: DeviceError.
  virtual void finish() = 0;
};

}  // namespace taut
