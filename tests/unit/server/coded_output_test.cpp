#include "server/checkpoints/coded_output.hpp"

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/net/zmq_endpoint.hpp"
#include "proto/config/job_state.hpp"
#include "server/coordinator/checkpoint_keeper.hpp"
#include "server/parts/part_thread.hpp"
#include "server/shard_thread.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

constexpr std::uint64_t kCount = 50'000;

/// A server with a disk of its own and a shard, through which others reach it.
struct Server {
  Server(ZmqContext& context, const fs::path& home, const std::string& its_name)
      : name(its_name),
        disk(home / ("disk of " + its_name)),
        store(disk, its_name),
        thread(store),
        client(context.make_endpoint(), Duration(2'000'000)) {
    ShardThread::Options options;
    options.on_part_request = [this](ShardThread& from, PeerId peer, DataPartRequest asked) {
      if (is_deaf) return;
      thread.put(std::move(asked),
                 [&from, peer](DataPartReply answer) { from.reply(peer, std::move(answer)); });
    };
    auto started = ShardThread::start(context, "127.0.0.1:0", options, [](auto, auto) {});
    REQUIRE(started.has_value());
    shard = std::move(started.value());
  }
  ~Server() { thread.stop(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] PartDisks disks() { return {name, &store, &client}; }

  const std::string name;
  const fs::path disk;
  PartStore store;
  PartThread thread;
  PartClient client;
  std::atomic<bool> is_deaf = false;
  std::unique_ptr<ShardThread> shard;
};

/// Three servers, a table of two slices for each, and a checkpoint of all.
struct Cluster {
  Cluster() {
    for (const char* name : {"a", "b", "c"}) {
      servers.push_back(std::make_unique<Server>(context, home.path(), name));
    }
    task.job = JobId(7);
    task.number = 4;
    task.folder = (home.path() / "coordinator" / "net_iter_9").string();
    task.aside = task.folder + ".part-7-4";
    pb::CheckpointManifest& manifest = task.manifest;
    manifest.set_format(kCheckpointFormat);
    manifest.set_job(7);
    manifest.set_number(4);
    manifest.set_token(99);
    manifest.set_clock(9);
    manifest.set_slots(1);
    manifest.add_members()->set_leave_clock(Clock::never().value());
    manifest.mutable_coding()->set_data(4);
    manifest.mutable_coding()->set_parity(2);
    manifest.mutable_coding()->set_block_bytes(4096);
    *manifest.add_tables() = to_wire(table());
    for (const auto& server : servers) {
      pb::PartHolder& holder = task.holders.emplace_back();
      holder.set_name(server->name);
      holder.set_address(server->shard->address());
    }
  }
  static TableSpec table() { return test::make_table(0, {6, kCount}); }
  static float value(std::uint64_t i) { return 0.25F * static_cast<float>(i) - 3; }

  /// Each server's part, from what it has captured.
  Result<void> write() {
    const std::atomic<bool> stop = false;
    for (std::uint32_t host = 0; host < 3; ++host) {
      ShardCapture capture;
      capture.job = JobId(7);
      capture.shard = ShardId(host);
      capture.order.number = 4;
      capture.order.clock = Clock(9);
      capture.order.folder = task.aside;
      capture.order.data = 4;
      capture.order.parity = 2;
      capture.order.block_bytes = 4096;
      for (const pb::PartHolder& holder : task.holders) {
        capture.order.holders.push_back({holder.name(), holder.address()});
      }
      capture.tables = {table()};
      for (std::uint64_t row = host; row < 6; row += 3) {
        SliceImage& image = capture.slices.emplace_back();
        image.place.table = TableId(0);
        image.place.offset = row * kCount;
        image.place.count = kCount;
        image.version = Clock(9);
        image.applications = 9;
        image.values = pool.acquire(kCount * sizeof(float));
        for (std::uint64_t i = 0; i < kCount; ++i) {
          image.values.floats()[i] = value(row * kCount + i);
        }
      }
      const MakeOutput make = coded_files(capture.order, ShardId(host), servers[host]->disks());
      TAUT_TRY(auto files, write_shard_files(std::move(capture), make, stop));
      for (const pb::CheckpointFile& file : files) *task.manifest.add_files() = file;
    }
    return ok();
  }
  Result<std::string> finish() {
    PartClient client(context.make_endpoint(), Duration(2'000'000));
    notes.clear();
    return finish_checkpoint(task, notes, &client);
  }
  /// What a server of a resumed job gets.
  Result<std::vector<ShardImages>> resume(std::size_t server) {
    test::JobMaker job(1);
    job.state.clear_shards();
    for (std::uint32_t i = 0; i < 3; ++i) {
      pb::ShardInfo& shard = *job.state.add_shards();
      shard.set_shard(i);
      shard.set_address(servers[i]->shard->address());
    }
    job.state.set_first_shard(static_cast<std::uint32_t>(server));
    job.state.mutable_resume()->set_folder(task.folder);
    job.state.mutable_resume()->set_clock(9);
    job.state.mutable_resume()->set_manifest(write_manifest(task.manifest));
    return read_shard_images(job.state, 1, saved_on(servers[server]->disks()));
  }
  /// Returns how many elements they have.
  std::uint64_t check_images(const std::vector<ShardImages>& images) {
    REQUIRE(images.size() == 1);
    std::uint64_t count = 0;
    for (const auto& [index, image] : images[0].slices) {
      CHECK(image.applications == 9);
      for (std::uint64_t i = 0; i < image.place.count; ++i) {
        if (image.values.floats()[i] != value(image.place.offset + i)) {
          FAIL("element " << image.place.offset + i << " differs");
        }
      }
      count += image.place.count;
    }
    return count;
  }
  [[nodiscard]] std::size_t files_of(std::size_t server) const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(servers[server]->disk)) {
      if (entry.is_regular_file()) ++count;
    }
    return count;
  }

  test::TempFolder home;
  ZmqContext context{Security::insecure()};
  BufferPool pool;
  std::vector<std::unique_ptr<Server>> servers;
  CheckpointTask task;
  std::vector<std::string> notes;
};

}  // namespace

TEST_CASE("parts go to all servers' disks, and any one disk may be lost", "[checkpoint][parts]") {
  Cluster cluster;
  REQUIRE(cluster.write().has_value());
  const auto finished = cluster.finish();
  REQUIRE(finished.has_value());
  CHECK(fs::exists(fs::path(finished.value()) / kManifestName));
  std::uint64_t stored = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    // Two parts of each of three files, and the manifest.
    CHECK(cluster.files_of(i) == 7);
    CHECK(fs::exists(cluster.servers[i]->disk / "net_iter_9" / kManifestName));
    for (const auto& entry : fs::directory_iterator(cluster.servers[i]->disk / "net_iter_9")) {
      if (entry.path().filename() != kManifestName) stored += entry.file_size();
    }
  }
  const double plain = 6.0 * kCount * sizeof(float);
  CHECK(static_cast<double>(stored) / plain < 1.51);
  std::uint64_t read = 0;
  for (std::size_t server = 0; server < 3; ++server) {
    const auto images = cluster.resume(server);
    REQUIRE(images.has_value());
    read += cluster.check_images(images.value());
  }
  CHECK(read == 6 * kCount);
  for (std::size_t lost = 0; lost < 3; ++lost) {
    const fs::path disk = cluster.servers[lost]->disk;
    fs::rename(disk, disk.string() + " away");
    for (std::size_t server = 0; server < 3; ++server) {
      const auto images = cluster.resume(server);
      REQUIRE(images.has_value());
      (void)cluster.check_images(images.value());
    }
    fs::rename(disk.string() + " away", disk);
  }
  fs::remove_all(cluster.servers[0]->disk);
  fs::remove_all(cluster.servers[1]->disk);
  const auto images = cluster.resume(2);
  REQUIRE(!images.has_value());
  CHECK_THAT(images.error().message, Contains("4 of its 6 parts are needed and 2 are found"));
}

TEST_CASE("a finished checkpoint in parts may be finished again, from any step",
          "[checkpoint][parts]") {
  Cluster cluster;
  REQUIRE(cluster.write().has_value());
  const std::string first = cluster.finish().value();
  CHECK(cluster.finish().value() == first);
  // The coordinator died before its own folder was in place, with the manifests copied.
  fs::rename(first, cluster.task.aside);
  CHECK(cluster.finish().value() == first);
  // And with none of them copied.
  fs::remove_all(first);
  for (const auto& server : cluster.servers) {
    fs::remove(server->disk / "net_iter_9" / kManifestName);
  }
  CHECK(cluster.finish().value() == first);
  CHECK(cluster.resume(1).has_value());
}

TEST_CASE("another checkpoint of the same path stays on every server", "[checkpoint][parts]") {
  Cluster cluster;
  REQUIRE(cluster.write().has_value());
  REQUIRE(cluster.finish().has_value());
  fs::remove_all(cluster.task.folder);
  cluster.task.manifest.set_token(100);
  const auto refused = cluster.finish();
  REQUIRE(!refused.has_value());
  CHECK_THAT(refused.error().message, Contains("has another checkpoint"));
  for (std::size_t i = 0; i < 3; ++i) CHECK(cluster.files_of(i) == 7);
}

TEST_CASE("a server that does not answer costs the checkpoint, and no earlier one",
          "[checkpoint][parts]") {
  Cluster cluster;
  REQUIRE(cluster.write().has_value());
  REQUIRE(cluster.finish().has_value());
  cluster.servers[2]->is_deaf = true;
  cluster.task.aside += "1";
  cluster.task.manifest.clear_files();
  const auto written = cluster.write();
  REQUIRE(!written.has_value());
  CHECK_THAT(written.error().message, Contains("has not answered for 2 s"));
  // What resumes asks the others, and finds enough.
  cluster.task.aside.pop_back();
  cluster.servers[2]->is_deaf = false;
  cluster.task.manifest.clear_files();
  REQUIRE(cluster.write().has_value());
  cluster.servers[2]->is_deaf = true;
  const auto images = cluster.resume(0);
  REQUIRE(images.has_value());
  CHECK(cluster.check_images(images.value()) > 0);
}

TEST_CASE("a disk that cannot be written is named with its server's reason",
          "[checkpoint][parts]") {
  Cluster cluster;
  test::TempFolder other;
  fs::remove_all(cluster.servers[1]->disk);
  other.write("file", "x");
  fs::copy_file(other.path() / "file", cluster.servers[1]->disk);
  const auto written = cluster.write();
  REQUIRE(!written.has_value());
  CHECK_THAT(written.error().message, Contains("disk of b") && Contains("Not a directory"));
}

}  // namespace taut::server
