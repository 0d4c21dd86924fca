#include "tests/unit/cache/late_backend.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <stdexcept>
#include <utility>

namespace taut::test {
namespace {

void fill_with_nan(std::byte* at, std::uint64_t bytes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::uint64_t i = 0; i + sizeof nan <= bytes; i += sizeof nan) {
    std::memcpy(at + i, &nan, sizeof nan);
  }
}

}  // namespace

/// What is queued on a stream. Tasks are numbered from 1 on.
struct LateBackend::Queue {
  std::deque<std::function<void()>> tasks;
  std::uint64_t queued = 0;
  std::uint64_t done = 0;
};

class LateBackend::LateStream final : public Stream {
 public:
  LateStream(LateBackend& backend, QueuePtr queue) : backend_(backend), queue_(std::move(queue)) {}
  ~LateStream() override {
    // What fails has failed; the rest is done all the same.
    while (queue_->done < queue_->queued) {
      try {
        finish();
      } catch (const std::exception&) {
        continue;
      }
    }
  }
  void finish() override {
    std::scoped_lock lock(backend_.mutex_);
    backend_.wait_for(queue_, queue_->queued);
  }
  std::unique_ptr<Mark> make_mark() override;
  void post(std::function<void()> task) {
    queue_->tasks.push_back(std::move(task));
    ++queue_->queued;
  }
  [[nodiscard]] const QueuePtr& queue() const { return queue_; }

 private:
  LateBackend& backend_;
  QueuePtr queue_;
};

class LateBackend::LateEvent final : public Event {
 public:
  explicit LateEvent(LateBackend& backend) : backend_(backend) {}
  void record(Stream& stream) override {
    std::scoped_lock lock(backend_.mutex_);
    queue_ = static_cast<LateStream&>(stream).queue();
    mark_ = queue_->queued;
  }
  void wait(Stream& stream) override {
    std::scoped_lock lock(backend_.mutex_);
    if (!queue_) return;
    static_cast<LateStream&>(stream).post(
        [queue = queue_, mark = mark_, &backend = backend_] { backend.advance(queue, mark); });
  }
  bool query() override {
    std::scoped_lock lock(backend_.mutex_);
    return !queue_ || queue_->done >= mark_;
  }
  void finish() override {
    std::scoped_lock lock(backend_.mutex_);
    if (queue_) backend_.wait_for(queue_, mark_);
  }

 private:
  LateBackend& backend_;
  QueuePtr queue_;
  std::uint64_t mark_ = 0;
};

class LateBackend::LateMark final : public Mark {
 public:
  LateMark(LateBackend& backend, LateStream& stream) : stream_(stream), event_(backend) {}
  void record() override { event_.record(stream_); }
  bool passed() override { return event_.query(); }
  void finish() override { event_.finish(); }

 private:
  LateStream& stream_;
  LateEvent event_;
};

std::unique_ptr<Mark> LateBackend::LateStream::make_mark() {
  return std::make_unique<LateMark>(backend_, *this);
}

LateBackend::LateBackend(Backend& cpu, const Options& options)
    : WrappedBackend(cpu),
      options_(options),
      inner_stream_(cpu.make_stream()),
      random_(options.seed) {
  const int file = ::memfd_create("late device", MFD_CLOEXEC);
  const auto size = static_cast<std::size_t>(options.memory.value());
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0) {
    throw std::runtime_error("no memory for a late device");
  }
  void* const faces = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0);
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (faces == MAP_FAILED || memory == MAP_FAILED) {
    throw std::runtime_error("no addresses for a late device");
  }
  faces_ = static_cast<std::byte*>(faces);
  memory_ = static_cast<std::byte*>(memory);
}

LateBackend::~LateBackend() {
  ::munmap(faces_, options_.memory.value());
  ::munmap(memory_, options_.memory.value());
}

DeviceBuffer LateBackend::allocate(Bytes size, BufferKind /*kind*/, std::string_view name) {
  std::scoped_lock lock(mutex_);
  if (size.value() == 0) return {};
  const std::uint64_t place = allocated_;
  allocated_ += (size.value() + 255) / 256 * 256;
  if (allocated_ > options_.memory.value()) {
    throw DeviceError("late CPU: no memory for " + std::string(name));
  }
  fill_with_nan(memory_ + place, size.value());
  return {faces_ + place, size, [](void*, void*) noexcept {}};
}

std::unique_ptr<Stream> LateBackend::make_stream() {
  std::scoped_lock lock(mutex_);
  auto queue = std::make_shared<Queue>();
  queues_.push_back(queue);
  return std::make_unique<LateStream>(*this, std::move(queue));
}

std::unique_ptr<Event> LateBackend::make_event() {
  return std::make_unique<LateEvent>(*this);
}

void LateBackend::on_call(Stream& stream, DeviceCall call) {
  std::scoped_lock lock(mutex_);
  std::vector<std::byte*> addresses;
  for (const Operand& operand : call.operands) {
    addresses.push_back(memory_ + (operand.address - faces_));
  }
  ++calls_;
  static_cast<LateStream&>(stream).post(
      [this, run = std::move(call.run), addresses = std::move(addresses)] {
        run(*inner_stream_, addresses);
      });
  advance_some();
}

/// The host waits. REQUIRES: the lock.
void LateBackend::wait_for(const QueuePtr& queue, std::uint64_t until) {
  if (queue->done < until) ++waits_;
  advance(queue, until);
}

/// REQUIRES: the lock.
void LateBackend::advance(const QueuePtr& queue, std::uint64_t until) {
  while (queue->done < until) {
    const std::function<void()> task = std::move(queue->tasks.front());
    queue->tasks.pop_front();
    try {
      task();
    } catch (...) {
      ++queue->done;
      throw;
    }
    ++queue->done;
  }
}

/// With a seed: a few tasks of a stream are done at once.
void LateBackend::advance_some() {
  if (options_.seed == 0) return;
  const QueuePtr queue = queues_[random_() % queues_.size()].lock();
  if (!queue) return;
  advance(queue, std::min(queue->queued, queue->done + random_() % 4));
}

}  // namespace taut::test
