#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "server/checkpoints/checkpoint_thread.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/server/checkpoints/service.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;
using test::job_of;
using test::Service;

}  // namespace

TEST_CASE("prepared memory is freed by the checkpoint thread", "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 2);
  for (const SpareStock& stock : service.stocks()) stock.fill(false);
  service.job.state.clear_checkpoint();
  service.publish();
  BoundedQueue<bool> loaded(1);
  CheckpointThread thread(
      1, [](std::size_t, JobId, const ShardPart&) {},
      [&](const pb::ServerJob&, const Result<std::vector<ShardImages>>& images) {
        (void)loaded.push(images.has_value(), Duration::zero());
      });
  for (SpareExcess& excess : service.excesses()) thread.free(std::move(excess));
  // One after the other: this one is refused, as it names no checkpoint.
  thread.load(pb::ServerJob());
  CHECK(loaded.pop(Duration(10'000'000)) == false);
  CHECK(service.freed_elsewhere() == 3);
}

TEST_CASE("the checkpoint thread prepares the memory", "[checkpoint]") {
  Service service(job_of(1, Slack(0)), 1);
  service.order(1, 2);
  BoundedQueue<bool> loaded(1);
  CheckpointThread thread(
      1, [](std::size_t, JobId, const ShardPart&) {},
      [&](const pb::ServerJob&, const Result<std::vector<ShardImages>>& images) {
        (void)loaded.push(images.has_value(), Duration::zero());
      });
  for (SpareStock& stock : service.stocks()) thread.preallocate(std::move(stock));
  // One after the other: this one is refused, as it names no checkpoint.
  thread.load(pb::ServerJob());
  CHECK(loaded.pop(Duration(10'000'000)) == false);
  CHECK(service.ready() == 3 * BufferPool::rounded_size(1));
}

TEST_CASE("a folder that cannot be created fails the part and reports why", "[checkpoint]") {
  const test::TempFolder folder;
  const auto blocked = folder.write("blocked", "a file");
  Service service(job_of(1, Slack(0)), 1);
  service.order(4, 1, (blocked / "x").string());
  service.push_all(0, 1);
  BoundedQueue<ShardPart> parts(4);
  CheckpointThread thread(
      1,
      [&](std::size_t, JobId, ShardPart part) {
        (void)parts.push(std::move(part), Duration::zero());
      },
      [](const pb::ServerJob&, const Result<std::vector<ShardImages>>&) {});
  for (ShardCapture& capture : service.captures()) thread.write(0, std::move(capture));
  const auto part = parts.pop(Duration(10'000'000));
  REQUIRE(part.has_value());
  CHECK(part->number == 4);
  CHECK(!part->missed);
  CHECK(part->error.find("Not a directory") != std::string::npos);
}

TEST_CASE("what waits to be written is dropped when its checkpoint is withdrawn, with its folder",
          "[checkpoint]") {
  const test::TempFolder folder;
  const fs::path aside = folder.path() / "x_iter_1.part-7-4";
  Service service(job_of(1, Slack(0)), 2);
  service.order(4, 1, aside.string());
  service.push_all(0, 1);
  std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 2);

  BoundedQueue<std::size_t> written(4);
  BoundedQueue<bool> removed(1);
  BoundedQueue<bool> loaded(1);
  CheckpointThread thread(
      2,
      [&](std::size_t shard, JobId, const ShardPart&) {
        (void)written.push(std::size_t{shard}, Duration::zero());
        (void)removed.pop(Duration(10'000'000));
      },
      [&](const pb::ServerJob&, const Result<std::vector<ShardImages>>& images) {
        (void)loaded.push(images.has_value(), Duration::zero());
      });
  for (std::size_t shard = 0; shard < 2; ++shard) {
    thread.write(shard, std::move(captures[shard]));
  }
  CHECK(written.pop(Duration(10'000'000)) == 0U);
  CHECK(fs::exists(aside));
  service.job.state.clear_checkpoint();
  service.publish();
  fs::remove_all(aside);
  (void)removed.push(true, Duration::zero());
  // One after the other: this one is refused, as it names no checkpoint.
  thread.load(pb::ServerJob());
  CHECK(loaded.pop(Duration(10'000'000)) == false);
  CHECK_FALSE(fs::exists(aside));
  CHECK_FALSE(written.pop(Duration::zero()).has_value());
}

}  // namespace taut::server
