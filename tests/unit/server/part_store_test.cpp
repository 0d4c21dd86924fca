#include "server/parts/part_store.hpp"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "common/files/sha256.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "server/parts/part_client.hpp"
#include "server/parts/part_thread.hpp"
#include "server/shard_thread.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

pb::PartRequest request(pb::PartRequest::Kind kind, const std::string& folder,
                        const std::string& file = "") {
  pb::PartRequest result;
  result.set_kind(kind);
  result.set_folder(folder);
  result.set_file(file);
  return result;
}

/// A store, asked without a connection.
struct Store {
  explicit Store(const fs::path& home, const fs::path& own = {})
      : folder((home / "net_iter_5").string()), store(own, "server1") {}

  DataPartReply ask(pb::PartRequest head, const std::string& bytes = "") {
    return store.answer({std::move(head), bytes.empty() ? Frame() : Frame::copy_of(bytes)});
  }
  DataPartReply write(const std::string& file, std::uint64_t offset, const std::string& bytes) {
    pb::PartRequest head = request(pb::PartRequest::WRITE, folder, file);
    head.set_offset(offset);
    return ask(std::move(head), bytes);
  }
  DataPartReply seal(const std::string& file, std::uint64_t bytes) {
    pb::PartRequest head = request(pb::PartRequest::SEAL, folder, file);
    head.set_count(bytes);
    return ask(std::move(head));
  }
  DataPartReply read(const std::string& file, std::uint64_t offset, std::uint64_t count) {
    pb::PartRequest head = request(pb::PartRequest::READ, folder, file);
    head.set_offset(offset);
    head.set_count(count);
    return ask(std::move(head));
  }
  DataPartReply move(const std::string& to, std::uint64_t token = 0, std::uint64_t order = 1) {
    pb::PartRequest head = request(pb::PartRequest::MOVE, folder);
    head.set_to(to);
    head.set_token(token);
    head.set_order(order);
    return ask(std::move(head));
  }
  DataPartReply remove(const std::string& what, std::uint64_t token, std::uint64_t order) {
    pb::PartRequest head = request(pb::PartRequest::REMOVE, what);
    head.set_token(token);
    head.set_order(order);
    return ask(std::move(head));
  }

  std::string folder;
  PartStore store;
};

constexpr const char* kPart = "shard0.safetensors.part3";

}  // namespace

TEST_CASE("a part is written in pieces, sealed, checked and read", "[parts]") {
  const test::TempFolder home;
  Store store(home.path());
  CHECK(store.write(kPart, 3, "def").head.error().empty());
  CHECK(store.write(kPart, 0, "abc").head.error().empty());
  CHECK(store.ask(request(pb::PartRequest::CHECK, store.folder, kPart)).head.missing());
  CHECK_THAT(store.seal(kPart, 7).head.error(), Contains("has 6 bytes, not 7"));
  CHECK(store.seal(kPart, 6).head.error().empty());
  CHECK(store.seal(kPart, 6).head.error().empty());
  CHECK_THAT(store.seal(kPart, 5).head.error(), Contains("nothing was written"));
  CHECK(test::bytes_of_file(home.path() / "disk-server1" / "net_iter_5" / kPart) == "abcdef");
  const DataPartReply checked = store.ask(request(pb::PartRequest::CHECK, store.folder, kPart));
  Sha256 digest;
  const std::string whole = "abcdef";
  digest.update(std::as_bytes(std::span(whole)));
  CHECK(checked.head.sha256() == digest.finish());
  CHECK(checked.head.bytes() == 6);
  CHECK(store.read(kPart, 2, 3).payload.text() == "cde");
  CHECK_THAT(store.read(kPart, 4, 3).head.error(), Contains("has 6 bytes"));
  CHECK_THAT(store.read(kPart, 0, 1ULL << 30U).head.error(), Contains("the limit is"));
  CHECK(store.read("shard1.safetensors.part0", 0, 1).head.missing());
}

TEST_CASE("a changed part has another digest", "[parts]") {
  const test::TempFolder home;
  Store store(home.path());
  (void)store.write(kPart, 0, "abcdef");
  (void)store.seal(kPart, 6);
  const auto check = [&] {
    return store.ask(request(pb::PartRequest::CHECK, store.folder, kPart)).head.sha256();
  };
  const std::string before = check();
  CHECK(check() == before);
  const fs::path file = home.path() / "disk-server1" / "net_iter_5" / kPart;
  test::put_file(file, "abcdeg");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  CHECK(check() != before);
}

TEST_CASE("a server's own folder has its parts", "[parts]") {
  const test::TempFolder home;
  Store store(home.path() / "job", home.path() / "disk");
  CHECK(store.write(kPart, 0, "a").head.error().empty());
  CHECK(store.seal(kPart, 1).head.error().empty());
  CHECK(fs::exists(home.path() / "disk" / "net_iter_5" / kPart));
  CHECK(!fs::exists(home.path() / "job"));
}

TEST_CASE("checkpoints of one name in two jobs' folders are two in a server's folder", "[parts]") {
  const test::TempFolder home;
  PartStore store(home.path() / "disk", "server1");
  const auto ask = [&](pb::PartRequest::Kind kind, const std::string& job, std::uint64_t token,
                       const std::string& bytes = "") {
    const std::string folder = (home.path() / job / "net_iter_5").string();
    pb::PartRequest head = part_request(kind, token, folder, kPart);
    head.set_count(4);
    return store.answer({std::move(head), bytes.empty() ? Frame() : Frame::copy_of(bytes)});
  };
  for (const auto& [job, token] : {std::pair("one", 1U), std::pair("two", 2U)}) {
    CHECK(ask(pb::PartRequest::WRITE, job, token, job).head.error().empty());
    CHECK(ask(pb::PartRequest::SEAL, job, token).head.error() ==
          (home.path() / "disk" / ("submission-000000000000000" + std::to_string(token)) /
           "net_iter_5" / kPart)
                  .string() +
              ": has 3 bytes, not 4");
  }
}

TEST_CASE("a folder is moved once, and replaces no other checkpoint", "[parts]") {
  const test::TempFolder home;
  Store store(home.path());
  const std::string to = (home.path() / "final_iter_5").string();
  const fs::path place = home.path() / "disk-server1" / "final_iter_5";
  (void)store.write(kPart, 0, "a");
  (void)store.seal(kPart, 1);
  // What an earlier try has left has no manifest.
  fs::create_directories(place);
  test::put_file(place / "shard9.safetensors.part0", "old");
  CHECK(store.move(to).head.error().empty());
  CHECK(fs::exists(place / kPart));
  CHECK(!fs::exists(place / "shard9.safetensors.part0"));
  CHECK(store.move(to).head.error().empty());
  test::CheckpointMaker maker(5);
  maker.manifest.set_token(77);
  maker.write(home.path() / "other");
  fs::copy_file(home.path() / "other" / kManifestName, place / kManifestName);
  CHECK(store.move(to, 77, 1).head.error().empty());
  CHECK_THAT(store.move(to, 78, 1).head.error(), Contains("has another checkpoint"));
  CHECK_THAT(store.move(to, 77, 2).head.error(), Contains("has another checkpoint"));
  CHECK(fs::exists(place / kPart));
  // A checkpoint other than the one to remove has its path.
  CHECK(store.remove(to, 78, 1).head.error().empty());
  CHECK(store.remove(to, 77, 2).head.error().empty());
  CHECK(fs::exists(place / kPart));
  CHECK(store.remove(to, 77, 1).head.error().empty());
  CHECK(!fs::exists(place));
  CHECK(store.ask(request(pb::PartRequest::REMOVE, to)).head.error().empty());
}

TEST_CASE("no other file than a part or a manifest is touched", "[parts]") {
  const test::TempFolder home;
  Store store(home.path());
  for (const std::string name :
       {"", ".", "..", "../x.part0", "shard0.safetensors", "x.part", "x.part1a", "a/b.part0"}) {
    CHECK_THAT(store.write(name, 0, "a").head.error(), Contains("is not a part of a checkpoint"));
  }
  CHECK_THAT(store.ask(request(pb::PartRequest::REMOVE, "/")).head.error(),
             Contains("does not name a checkpoint's folder"));
  CHECK_THAT(
      store.ask(request(pb::PartRequest::REMOVE, (home.path() / "..").string())).head.error(),
      Contains("does not name a checkpoint's folder"));
  const fs::path place = home.path() / "disk-server1" / "net_iter_5";
  fs::create_directories(place);
  test::put_file(place / "mine.txt", "mine");
  test::put_file(place / (std::string(kPart) + ".unfinished"), "x");
  CHECK_THAT(store.ask(request(pb::PartRequest::REMOVE, store.folder)).head.error(),
             Contains("cannot be removed"));
  CHECK(fs::exists(place / "mine.txt"));
  CHECK(!fs::exists(place / (std::string(kPart) + ".unfinished")));
}

TEST_CASE("parts that are sealed while their checkpoint is given up do not stay", "[parts]") {
  constexpr int kParts = 24;
  const auto name = [](int part) { return fmt::format("shard0.safetensors.part{}", part); };
  const test::TempFolder home;
  for (int round = 0; round < 40; ++round) {
    Store store(home.path());
    store.folder += fmt::format(".part-1-9-{}", round);
    for (int part = 0; part < kParts; ++part) {
      REQUIRE(store.write(name(part), 0, "abcdef").head.error().empty());
    }
    std::atomic<int> sealed = 0;
    std::thread sealing([&] {
      for (int part = 0; part < kParts; ++part) {
        (void)store.seal(name(part), 6);
        ++sealed;
      }
    });
    while (sealed < round % kParts) std::this_thread::yield();
    (void)store.remove(store.folder, 0, 0);
    sealing.join();
    const fs::path place = home.path() / "disk-server1" / fs::path(store.folder).filename();
    CHECK(!fs::exists(place));
  }
}

TEST_CASE("a long error is cut to what a reply may have", "[parts]") {
  const test::TempFolder home;
  Store store(home.path());
  const auto refused = store.ask(
      request(pb::PartRequest::REMOVE, "/" + std::string(4090, 'x') + "/" + std::string(300, 'y')));
  CHECK_THAT(refused.head.error(), Contains("xxxx"));
  CHECK(refused.head.error().size() <= 4096);
}

TEST_CASE("a part that cannot be written is reported with the system's message", "[parts]") {
  const test::TempFolder home;
  test::put_file(home.path() / "disk-server1", "a file, no folder");
  Store store(home.path());
  CHECK_THAT(store.write(kPart, 0, "a").head.error(), Contains("cannot be made: Not a directory"));
}

namespace {

/// A server's shard on loopback that serves parts, and a client of it.
struct Served {
  explicit Served(const fs::path& home) : store(home / "disk", "server1"), thread(store) {
    ShardThread::Options options;
    options.on_part_request = [this](ShardThread& from, PeerId peer, DataPartRequest asked) {
      if (is_deaf) return;
      if (steady_now() < works_until.load()) {
        DataPartReply working;
        working.head.set_request(asked.head.request());
        working.head.set_working(true);
        from.reply(peer, std::move(working));
        return;
      }
      thread.put({0, peer}, std::move(asked),
                 [&from, peer](DataPartReply answer) { from.reply(peer, std::move(answer)); });
    };
    auto started = ShardThread::start(context, "127.0.0.1:0", options, [](auto, auto) {});
    REQUIRE(started.has_value());
    shard = std::move(started.value());
  }
  ~Served() { thread.stop(); }

  ZmqContext context{Security::insecure()};
  PartStore store;
  PartThread thread;
  std::atomic<bool> is_deaf = false;
  std::atomic<TimePoint> works_until{TimePoint()};  // until then it answers that it works
  std::unique_ptr<ShardThread> shard;
};

}  // namespace

TEST_CASE("parts are written and read through a shard's socket", "[parts]") {
  const test::TempFolder home;
  Served served(home.path());
  PartClient client(served.context.make_endpoint());
  PartPosts posts(client);
  const std::string& address = served.shard->address();
  const std::string block(300'000, 'x');
  // More than the window takes at once.
  for (std::uint64_t i = 0; i < 40; ++i) {
    pb::PartRequest write = request(pb::PartRequest::WRITE, "/any/net_iter_5", kPart);
    write.set_offset(i * block.size());
    REQUIRE(posts.post(address, write, Frame::copy_of(block)).has_value());
  }
  REQUIRE(posts.settle().has_value());
  pb::PartRequest seal = request(pb::PartRequest::SEAL, "/any/net_iter_5", kPart);
  seal.set_count(40 * block.size());
  REQUIRE(client.ask(address, seal).has_value());
  pb::PartRequest read = request(pb::PartRequest::READ, "/any/net_iter_5", kPart);
  read.set_offset(39 * block.size());
  read.set_count(block.size());
  const auto answer = client.ask(address, read);
  REQUIRE(answer.has_value());
  CHECK(answer.value().payload.text() == block);
  // An error of something posted is reported with the next settle, and once.
  REQUIRE(posts
              .post(address,
                    request(pb::PartRequest::SEAL, "/any/net_iter_5", "shard7.safetensors.part0"))
              .has_value());
  const auto settled = posts.settle();
  REQUIRE(!settled.has_value());
  CHECK_THAT(settled.error().message, Contains("nothing was written"));
  CHECK(posts.settle().has_value());
}

TEST_CASE("posts that were given up fail no later ones", "[parts]") {
  const test::TempFolder home;
  Served served(home.path());
  PartClient client(served.context.make_endpoint());
  const std::string& address = served.shard->address();
  {
    PartPosts given_up(client);
    REQUIRE(given_up
                .post(address,
                      request(pb::PartRequest::SEAL, "/any/net_iter_5", "shard7.safetensors.part0"))
                .has_value());
  }
  PartPosts posts(client);
  REQUIRE(posts
              .post(address, request(pb::PartRequest::WRITE, "/any/net_iter_5", kPart),
                    Frame::copy_of("a"))
              .has_value());
  CHECK(posts.settle().has_value());
  CHECK(client.ask(address, request(pb::PartRequest::CHECK, "/any/net_iter_5", kPart)).has_value());
  CHECK(posts.settle().has_value());
}

TEST_CASE("a repeated request that still waits is answered at once: it is worked at", "[parts]") {
  const test::TempFolder home;
  PartStore store(home.path() / "disk", "server1");
  BoundedQueue<int> begun(1);
  BoundedQueue<int> goes_on(1);
  PartThread thread(store);
  const auto asked = [](std::uint64_t number) {
    DataPartRequest message{request(pb::PartRequest::CHECK, "/any/net_iter_5", kPart), {}};
    message.head.set_request(number);
    return message;
  };
  // The disk is busy with the first one.
  thread.put({0, PeerId(1)}, asked(1), [&](const DataPartReply&) {
    (void)begun.push(1, Duration::zero());
    (void)goes_on.pop(Duration(10'000'000));
  });
  REQUIRE(begun.pop(Duration(10'000'000)).has_value());
  BoundedQueue<bool> replies(8);
  const auto reply = [&](const DataPartReply& answer) {
    (void)replies.push(answer.head.working(), Duration::zero());
  };
  thread.put({0, PeerId(1)}, asked(2), reply);
  thread.put({0, PeerId(1)}, asked(2), reply);
  CHECK(replies.pop(Duration(10'000'000)) == true);
  // That of another peer, or through another shard's socket, is another one.
  thread.put({0, PeerId(2)}, asked(2), reply);
  thread.put({1, PeerId(1)}, asked(2), reply);
  CHECK_FALSE(replies.pop(Duration::zero()).has_value());
  (void)goes_on.push(1, Duration::zero());
  for (int i = 0; i < 3; ++i) CHECK(replies.pop(Duration(10'000'000)) == false);
}

TEST_CASE("a server that works is not lost, however long the request takes", "[parts]") {
  const test::TempFolder home;
  Served served(home.path());
  served.works_until = steady_now() + Duration(4'500'000);
  // Sent again after 3 s; without a word it would be lost after 3.5.
  PartClient client(served.context.make_endpoint(), Duration(3'500'000));
  const auto asked = client.ask(served.shard->address(),
                                request(pb::PartRequest::CHECK, "/any/net_iter_5", kPart));
  REQUIRE(asked.has_value());
  CHECK(asked.value().head.missing());
}

TEST_CASE("a server that does not answer is named after a while", "[parts]") {
  const test::TempFolder home;
  Served served(home.path());
  served.is_deaf = true;
  PartClient client(served.context.make_endpoint(), Duration(300'000));
  const auto asked = client.ask(served.shard->address(),
                                request(pb::PartRequest::CHECK, "/any/net_iter_5", kPart));
  REQUIRE(!asked.has_value());
  CHECK(asked.error().code == ErrorCode::kTimeout);
  CHECK_THAT(asked.error().message, Contains("has not answered for 0.3 s"));
  served.is_deaf = false;
  CHECK(
      client.ask(served.shard->address(), request(pb::PartRequest::CHECK, "/any/net_iter_5", kPart))
          .value()
          .head.missing());
  client.stop();
  CHECK(
      client.ask(served.shard->address(), request(pb::PartRequest::CHECK, "/any/net_iter_5", kPart))
          .error()
          .code == ErrorCode::kClosed);
}

}  // namespace taut::server
