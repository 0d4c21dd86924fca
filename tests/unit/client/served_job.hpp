#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "server/shard_thread.hpp"
#include "tests/unit/server/job_maker.hpp"
#include "worker/client/client.hpp"

namespace taut::test {

/// Long enough on a busy machine; a test that needs it has failed.
constexpr Duration kDeadline{20'000'000};

/// A job's shards on loopback.
class ServedJob {
 public:
  explicit ServedJob(JobMaker maker) : job(std::move(maker)) {
    const auto view = job.view();
    for (const ShardId id : view->shards) {
      auto shard = server::ShardThread::start(
          context, "127.0.0.1:0", {.index = id.value()},
          [this](std::size_t, const server::ShardReport&) { ++reports_; });
      REQUIRE(shard.has_value());
      shards_.push_back(std::move(shard.value()));
    }
    change(view);
  }

  /// Passes the job's current view to every shard, and waits until they have it.
  void change() { change(job.view()); }

  [[nodiscard]] ClientOptions options(WorkerId worker, Duration resend = Duration(1'000'000)) {
    ClientOptions options;
    options.job = JobId(7);
    options.worker = worker;
    options.incarnation = job.incarnation(worker);
    options.job_hash = job.hash();
    options.resend = resend;
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      options.shards.push_back({ShardId(i), shards_[i]->address()});
    }
    return options;
  }
  [[nodiscard]] std::unique_ptr<Client> client(std::uint32_t worker) {
    return std::make_unique<Client>(context.make_endpoint(), options(WorkerId(worker)));
  }

  ZmqContext context{Security::insecure()};
  JobMaker job;

 private:
  void change(const std::shared_ptr<const server::JobView>& view) {
    reports_ = 0;
    for (std::uint32_t i = 0; i < shards_.size(); ++i) shards_[i]->set_job(ShardId(i), view);
    const TimePoint deadline = steady_now() + kDeadline;
    while (reports_ < shards_.size() && steady_now() < deadline) std::this_thread::yield();
    REQUIRE(reports_ == shards_.size());
  }

  std::atomic<std::size_t> reports_ = 0;
  std::vector<std::unique_ptr<server::ShardThread>> shards_;
};

}  // namespace taut::test
