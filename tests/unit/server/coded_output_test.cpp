#include "server/checkpoints/coded_output.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/config/job_state.hpp"
#include "server/coordinator/checkpoints/checkpoint_keeper.hpp"
#include "server/parts/part_thread.hpp"
#include "server/shard_thread.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

constexpr std::uint64_t kCount = 50'000;

/// A server with its own disk and a shard, through which others reach it.
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
      thread.put({0, peer}, std::move(asked),
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
  /// Where it has the checkpoint of the cluster's task.
  [[nodiscard]] fs::path parts() const { return disk / "submission-0000000000000063/net_iter_9"; }

  const std::string name;
  const fs::path disk;
  PartStore store;
  PartThread thread;
  PartClient client;
  std::atomic<bool> is_deaf = false;
  std::unique_ptr<ShardThread> shard;
};

/// Servers, a table of six slices that they share equally, and a checkpoint of all.
struct Cluster {
  explicit Cluster(std::size_t count = 3) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
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
    for (std::uint32_t host = 0; host < servers.size(); ++host) {
      ShardCapture capture;
      capture.job = JobId(7);
      capture.shard = ShardId(host);
      capture.order.number = task.manifest.number();
      capture.order.clock = Clock(9);
      capture.order.folder = task.aside;
      capture.order.data = 4;
      capture.order.parity = 2;
      capture.order.block_bytes = 4096;
      capture.order.token = task.manifest.token();
      for (const pb::PartHolder& holder : task.holders) {
        capture.order.holders.push_back({holder.name(), holder.address()});
      }
      capture.tables = {table()};
      for (std::uint64_t row = host; row < 6; row += servers.size()) {
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
    notes = {};
    tried.clear();
    auto finished = finish_checkpoint(task, notes, &client, &tried);
    if (finished) manifest_sha256 = find_saved(finished.value()).value().manifest_sha256;
    return finished;
  }
  /// What a server of a resumed job gets.
  [[nodiscard]] pb::ServerJob resumed_job(std::size_t server) const {
    test::JobMaker job(1);
    job.state.clear_shards();
    for (std::uint32_t i = 0; i < servers.size(); ++i) {
      pb::ShardInfo& shard = *job.state.add_shards();
      shard.set_shard(i);
      shard.set_address(servers[i]->shard->address());
    }
    job.state.set_first_shard(static_cast<std::uint32_t>(server));
    job.state.mutable_resume()->set_folder(task.folder);
    job.state.mutable_resume()->set_clock(9);
    job.state.mutable_resume()->set_manifest_sha256(manifest_sha256);
    job.state.mutable_resume()->set_token(task.manifest.token());
    return job.state;
  }
  Result<std::vector<ShardImages>> resume(std::size_t server) {
    return read_shard_images(resumed_job(server), 1, saved_on(servers[server]->disks()));
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
  PartClient client{context.make_endpoint(), Duration(2'000'000)};  // the coordinator's
  BufferPool pool;
  std::vector<std::unique_ptr<Server>> servers;
  CheckpointTask task;
  Notes notes;
  std::string tried;
  std::string manifest_sha256;  // of what was finished last
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
    CHECK(fs::exists(cluster.servers[i]->parts() / kManifestName));
    for (const auto& entry : fs::directory_iterator(cluster.servers[i]->parts())) {
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

TEST_CASE("any two of six servers' disks may be lost: what is restored has equal bits",
          "[checkpoint][parts]") {
  Cluster cluster(6);
  REQUIRE(cluster.write().has_value());
  REQUIRE(cluster.finish().has_value());
  // One part of each of six files, and the manifest.
  for (std::size_t i = 0; i < 6; ++i) REQUIRE(cluster.files_of(i) == 7);
  const auto lose = [&](std::size_t server) {
    const fs::path disk = cluster.servers[server]->disk;
    fs::rename(disk, disk.string() + " away");
  };
  const auto restore = [&](std::size_t server) {
    const fs::path disk = cluster.servers[server]->disk;
    fs::rename(disk.string() + " away", disk);
  };
  std::vector<float> values(6 * kCount);
  std::vector<float> written(6 * kCount);
  for (std::uint64_t i = 0; i < written.size(); ++i) written[i] = Cluster::value(i);
  std::size_t pairs = 0;
  for (std::size_t a = 0; a < 6; ++a) {
    for (std::size_t b = a + 1; b < 6; ++b) {
      lose(a);
      lose(b);
      INFO("disks " << a << " and " << b << " are lost");
      const std::size_t left = a > 0 ? 0 : (b > 1 ? 1 : 2);
      const auto saved = saved_on(cluster.servers[left]->disks())(cluster.resumed_job(left));
      REQUIRE(saved.has_value());
      std::ranges::fill(values, 0.0F);
      REQUIRE(saved.value().read_values(TableId(0), 0, values).has_value());
      CHECK((values == written));  // which prints no 300,000 numbers
      restore(a);
      restore(b);
      ++pairs;
    }
  }
  CHECK(pairs == 15);
  for (const std::size_t server : {0U, 2U, 5U}) lose(server);
  const auto images = cluster.resume(1);
  REQUIRE(!images.has_value());
  CHECK_THAT(images.error().message, Contains("4 of its 6 parts are needed and 3 are found"));
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
    fs::remove(server->parts() / kManifestName);
  }
  CHECK(cluster.finish().value() == first);
  CHECK(cluster.resume(1).has_value());
}

TEST_CASE("another checkpoint of the same path stays on every server, and blocks no later one",
          "[checkpoint][parts]") {
  Cluster cluster;
  REQUIRE(cluster.write().has_value());
  REQUIRE(cluster.finish().has_value());
  fs::remove_all(cluster.task.folder);
  // The same submission, resumed from an earlier clock by a coordinator that has lost its folder.
  cluster.task.manifest.set_number(5);
  cluster.task.manifest.clear_files();
  REQUIRE(cluster.write().has_value());
  const auto finished = cluster.finish();
  REQUIRE(finished.has_value());
  CHECK(finished.value() == cluster.task.folder + "-2");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(cluster.files_of(i) == 14);
    CHECK(fs::exists(cluster.servers[i]->parts() / kManifestName));
    CHECK(fs::exists(cluster.servers[i]->parts().string() + "-2"));
  }
  cluster.task.folder = finished.value();
  CHECK(cluster.resume(1).has_value());
}

TEST_CASE("where one server cannot move its parts, the path is known, and all can remove them",
          "[checkpoint][parts]") {
  Cluster cluster;
  REQUIRE(cluster.write().has_value());
  // What is in the way is not a part, so it is not removed.
  const fs::path obstacle = cluster.servers[1]->parts() / "mine.txt";
  fs::create_directories(obstacle.parent_path());
  test::put_file(obstacle, "mine");
  const auto finished = cluster.finish();
  REQUIRE(!finished.has_value());
  CHECK(cluster.tried == cluster.task.folder);
  // The failure is known before the others have answered.
  const TimePoint until = steady_now() + Duration(10'000'000);
  while (!fs::exists(cluster.servers[0]->parts()) && steady_now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(fs::exists(cluster.servers[0]->parts()));
  CheckpointTask removal;
  removal.kind = CheckpointTask::Kind::kRemoveParts;
  removal.token = cluster.task.manifest.token();
  for (const pb::PartHolder& holder : cluster.task.holders) {
    for (const std::string& folder : {cluster.tried, cluster.task.aside}) {
      removal.removals.push_back({holder.name(), holder.address(), folder, 4});
    }
  }
  BoundedQueue<int> woken(8);
  CheckpointKeeper keeper(
      [&] { (void)woken.push(1, Duration::zero()); },
      std::make_unique<PartClient>(cluster.context.make_endpoint(), Duration(2'000'000)));
  keeper.put(removal);
  REQUIRE(woken.pop(Duration(20'000'000)).has_value());
  const auto removed = keeper.take_done();
  for (const PartRemoval& one : removed.at(0).task.removals) CHECK_FALSE(one.failed);
  CHECK(cluster.files_of(0) == 0);
  CHECK(cluster.files_of(1) == 1);
  CHECK(cluster.files_of(2) == 0);
  // A server that does not answer has them removed later.
  cluster.servers[2]->is_deaf = true;
  keeper.put(removal);
  REQUIRE(woken.pop(Duration(20'000'000)).has_value());
  const auto done = keeper.take_done();
  for (const PartRemoval& one : done.at(0).task.removals) {
    CHECK(one.failed == (one.server == "c"));
  }
}

TEST_CASE("a server that dies while another resumes is waited for once", "[checkpoint][parts]") {
  Cluster cluster;
  REQUIRE(cluster.write().has_value());
  REQUIRE(cluster.finish().has_value());
  const auto saved = saved_on(cluster.servers[0]->disks())(cluster.resumed_job(0));
  REQUIRE(saved.has_value());
  // It has two parts of each of three files, in many blocks.
  cluster.servers[2]->is_deaf = true;
  const TimePoint begin = steady_now();
  std::vector<float> values(6 * kCount);
  REQUIRE(saved.value().read_values(TableId(0), 0, values).has_value());
  CHECK(seconds(steady_now() - begin) < 2 * 2);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    if (values[i] != Cluster::value(i)) FAIL("element " << i << " differs");
  }
}

TEST_CASE("servers need the manifest that the job names", "[checkpoint][parts]") {
  Cluster cluster;
  REQUIRE(cluster.write().has_value());
  REQUIRE(cluster.finish().has_value());
  fs::remove(cluster.servers[0]->parts() / kManifestName);
  test::put_file(cluster.servers[1]->parts() / kManifestName, "another");
  CHECK(cluster.resume(0).has_value());
  fs::remove(cluster.servers[2]->parts() / kManifestName);
  const auto none = cluster.resume(0);
  REQUIRE(!none.has_value());
  CHECK(none.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(none.error().message, Contains("no server of the job has it on its disk"));
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
