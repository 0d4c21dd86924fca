#include "server/checkpoints/checkpoint_thread.hpp"

#include <fmt/format.h>

#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "common/failpoint.hpp"
#include "common/log.hpp"
#include "server/checkpoints/checkpoint_file.hpp"

namespace taut::server {
namespace {

constexpr Duration kIdle{500'000};

}  // namespace

CheckpointThread::CheckpointThread(std::size_t shards, OnPart on_part, OnLoaded on_loaded)
    : shards_(shards),
      on_part_(std::move(on_part)),
      on_loaded_(std::move(on_loaded)),
      thread_([this] { run(); }) {}

CheckpointThread::~CheckpointThread() {
  stopping_ = true;
  tasks_.close();
  thread_.join();
}

void CheckpointThread::run() {
  while (!stopping_) {
    if (auto task = tasks_.pop(kIdle)) (*task)();
  }
}

void CheckpointThread::write(std::size_t shard, ShardCapture capture) {
  const JobId job = capture.job;
  const std::uint64_t number = capture.order.number;
  // A task is copied; what it writes is not.
  auto shared = std::make_shared<ShardCapture>(std::move(capture));
  Task task = [this, shard, shared] { write_now(shard, std::move(*shared)); };
  if (!tasks_.push(std::move(task), Duration::zero())) {
    on_part_(shard, job, {number, false, "too many checkpoints wait to be written", {}, {}});
  }
}

void CheckpointThread::write_now(std::size_t shard, ShardCapture capture) {
  ShardPart part{capture.order.number, capture.missed, "", {}, capture.tables};
  const JobId job = capture.job;
  const std::int64_t clock = capture.order.clock.value();
  if (!part.missed) {
    failpoint("checkpoint begun");
    const TimePoint begin = steady_now();
    auto written = [&]() -> Result<pb::CheckpointFile> {
      try {
        return write_shard_file(std::move(capture), stopping_);
      } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::kIo, "no memory to write it with");
      } catch (const std::system_error& fault) {
        return make_error(ErrorCode::kIo, fmt::format("no thread to write it: {}", fault.what()));
      }
    }();
    if (written) {
      failpoint("checkpoint written");
      part.file = std::move(written.value());
      log::info("job {}: wrote {} of the checkpoint at clock {}: {} bytes in {:.2f} s", job.value(),
                part.file.name(), clock, part.file.bytes(), seconds(steady_now() - begin));
    } else {
      part.error = written.error().message;
      log::warn("job {}: the checkpoint at clock {} cannot be written: {}", job.value(), clock,
                part.error);
    }
  }
  on_part_(shard, job, std::move(part));
}

void CheckpointThread::stock(SpareStock stock) {
  Task task = [this, stock = std::move(stock)] {
    try {
      stock.fill(stopping_);
    } catch (const std::bad_alloc&) {
      log::debug("no memory can be prepared for a checkpoint: {} bytes", stock.bytes());
    }
  };
  (void)tasks_.push(std::move(task), Duration::zero());
}

void CheckpointThread::free(SpareExcess excess) {
  // A task is copied; what it frees is not. The task holds the last reference when it runs.
  auto shared = std::make_shared<std::optional<SpareExcess>>(std::move(excess));
  Task task = [shared] { shared->reset(); };
  shared.reset();
  (void)tasks_.push(std::move(task), Duration::zero());
}

void CheckpointThread::load(const pb::ServerJob& job) {
  Task task = [this, job] {
    const TimePoint begin = steady_now();
    auto images = [&]() -> Result<std::vector<ShardImages>> {
      try {
        return read_shard_images(job, shards_);
      } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::kIo,
                          fmt::format("{}: no memory to read it into", job.resume().folder()));
      }
    }();
    if (images) {
      log::info("job {}: read {} in {:.2f} s", job.job(), job.resume().folder(),
                seconds(steady_now() - begin));
    }
    on_loaded_(job, std::move(images));
  };
  if (!tasks_.push(std::move(task), Duration::zero())) {
    on_loaded_(job, make_error(ErrorCode::kUnavailable, "too much waits to be read or written"));
  }
}

}  // namespace taut::server
