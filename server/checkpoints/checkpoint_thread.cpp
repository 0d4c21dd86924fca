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

constexpr Duration kLookAgain{500'000};

/// For the log: what an order has written, and what it shares with earlier ones.
std::string sum_of(const std::vector<pb::CheckpointFile>& files, std::uint64_t order) {
  std::uint64_t written = 0;
  std::uint64_t shared = 0;
  for (const pb::CheckpointFile& file : files) {
    (file.order() == 0 || file.order() == order ? written : shared) += file.bytes();
  }
  return shared == 0 ? fmt::format("{} bytes", written)
                     : fmt::format("{} bytes, and {} shared with earlier ones", written, shared);
}

}  // namespace

CheckpointThread::CheckpointThread(std::size_t shards, OnPart on_part, OnLoaded on_loaded,
                                   PartDisks disks)
    : shards_(shards),
      on_part_(std::move(on_part)),
      on_loaded_(std::move(on_loaded)),
      disks_(std::move(disks)),
      thread_([this] { run(); }) {}

CheckpointThread::~CheckpointThread() {
  stopping_ = true;
  if (disks_.others != nullptr) disks_.others->stop();
  tasks_.close();
  thread_.join();
}

void CheckpointThread::run() {
  while (!stopping_) {
    if (auto task = tasks_.pop(kLookAgain)) (*task)();
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

Result<std::vector<pb::CheckpointFile>> CheckpointThread::write_files(ShardCapture capture) {
  try {
    if (capture.order.data == 0) return write_shard_files(std::move(capture), stopping_);
    if (disks_.own == nullptr) return invalid("this server keeps no parts of checkpoints");
    const MakeOutput make = coded_files(capture.order, capture.shard, disks_);
    return write_shard_files(std::move(capture), make, stopping_);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kIo, "no memory to write it with");
  } catch (const std::system_error& fault) {
    return make_error(ErrorCode::kIo, fmt::format("no thread to write it: {}", fault.what()));
  }
}

void CheckpointThread::write_now(std::size_t shard, ShardCapture capture) {
  ShardPart part{capture.order.number, capture.missed, "", {}, capture.tables};
  const ShardId host = capture.shard;
  const JobId job = capture.job;
  const std::int64_t clock = capture.order.clock.value();
  const auto withdrawn = capture.withdrawn;
  if (!part.missed) {
    failpoint("checkpoint begun");
    const TimePoint begin = steady_now();
    auto written = write_files(std::move(capture));
    if (*withdrawn) {
      log::info("job {}: the checkpoint at clock {} was withdrawn", job.value(), clock);
      return;
    }
    if (written) {
      failpoint("checkpoint written");
      part.files = std::move(written.value());
      log::info("job {}: wrote part {} of the checkpoint at clock {}: {} in {:.2f} s", job.value(),
                host.value(), clock, sum_of(part.files, part.number),
                seconds(steady_now() - begin));
    } else {
      part.error = written.error().message;
      log::warn("job {}: the checkpoint at clock {} cannot be written: {}", job.value(), clock,
                part.error);
    }
  }
  on_part_(shard, job, std::move(part));
}

void CheckpointThread::preallocate(SpareStock stock) {
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

void CheckpointThread::load(const pb::ServerJob& job, std::shared_ptr<const TableMemory> memory) {
  Task task = [this, job, memory = std::move(memory)] {
    const TimePoint begin = steady_now();
    auto images = [&]() -> Result<std::vector<ShardImages>> {
      try {
        return read_shard_images(job, shards_, saved_on(disks_), memory.get(), &stopping_);
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
