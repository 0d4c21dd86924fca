#include "server/replication/image_links.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace taut::server {
namespace {

using Catch::Matchers::Contains;

constexpr PeerId kBackup{7};
constexpr std::size_t kCount = 4096;

std::shared_ptr<SharedArena> new_arena() {
  auto arena = SharedArena::create(Bytes(64ULL << 20U));
  REQUIRE(arena.has_value());
  return arena.value();
}

Message message_of(ImageLinks& primary, DataImages images) {
  SharedLink* const link = primary.offer(kBackup, images);
  return encode(DataMessage{JobId(1), {}, {}, std::move(images)}, link);
}

/// Images as a backup has them before it takes what is lent.
DataImages decoded(const Message& sent) {
  auto message = decode_data(sent);
  REQUIRE(message.has_value());
  return std::get<DataImages>(std::move(message.value().body));
}

/// A primary and its backup, as two processes of a machine.
struct Pair {
  Pair() { primary.add(kBackup); }

  Buffer numbers(float first) {
    Buffer buffer = pool.acquire(kCount * sizeof(float));
    for (float& value : buffer.floats()) value = first++;
    return buffer;
  }
  DataImages images() {
    DataImages images;
    ImageItem& one = images.images.emplace_back();
    one.values = Frame(values);
    one.states = {Frame(state)};
    return images;
  }
  DataImages arrive(DataImages images) {
    const Message sent = message_of(primary, std::move(images));
    frames = sent.frames.size();
    return decoded(sent);
  }
  Result<DataImages> send(DataImages images) {
    DataImages arrived = arrive(std::move(images));
    TAUT_TRY(backup->take(arrived));
    return arrived;
  }
  void reply_to(const DataImages& images) {
    pb::SliceImagesReply reply;
    if (!images.lent_to) backup->answer(*images.memory, reply);
    primary.hear(kBackup, reply);
  }
  /// The first images tell both of each other's memory.
  void agree() {
    const auto first = send(images());
    REQUIRE(first.has_value());
    CHECK(frames == 3);
    reply_to(first.value());
    REQUIRE(primary.link(kBackup) != nullptr);
  }

  std::shared_ptr<SharedArena> arena = new_arena();
  std::shared_ptr<SharedArena> other = new_arena();
  BufferPool pool{Bytes(1U << 20U), arena};
  ImageLinks primary{arena};
  std::optional<ImageLinks> backup{other};
  Buffer values = numbers(1);
  Buffer state = numbers(-5000);
  std::size_t frames = 0;  // of the newest message
};

bool holds(const Frame& frame, const Buffer& buffer) {
  return std::ranges::equal(frame.bytes(), buffer.bytes());
}

}  // namespace

TEST_CASE("a primary lends images to a backup of its machine, which keeps copies",
          "[image_links]") {
  Pair pair;
  pair.agree();
  const auto lent = pair.send(pair.images());
  REQUIRE(lent.has_value());
  CHECK(pair.frames == 1);
  const ImageItem& image = lent.value().images.at(0);
  CHECK(holds(image.values, pair.values));
  REQUIRE(image.states.size() == 1);
  CHECK(holds(image.states[0], pair.state));
  CHECK(image.lent.empty());
  // The primary's memory is its own again, and what it does there changes no copy.
  CHECK_FALSE(pair.values.unshared());
  pair.primary.hear(kBackup, pb::SliceImagesReply());
  CHECK(pair.values.unshared());
  CHECK(pair.state.unshared());
  const float before = pair.values.floats()[0];
  pair.values.floats()[0] = before + 1;
  CHECK_FALSE(holds(image.values, pair.values));
}

TEST_CASE("what is not in the primary's memory travels as bytes, an image as a whole",
          "[image_links]") {
  Pair pair;
  pair.agree();
  DataImages images = pair.images();
  images.images[0].states = {Frame::copy_of(std::as_bytes(pair.state.floats()))};
  const auto sent = pair.send(images);
  REQUIRE(sent.has_value());
  CHECK(pair.frames == 3);
  CHECK(holds(sent.value().images[0].values, pair.values));
  CHECK(holds(sent.value().images[0].states[0], pair.state));
  // Nothing stays on loan of it.
  images.images.clear();
  CHECK(pair.primary.link(kBackup)->on_loan() == 0);
}

TEST_CASE("an update out of its worker's memory is lent too, and checked when it is taken",
          "[image_links]") {
  Pair pair;
  pair.agree();
  const Buffer gradient = pair.numbers(3);
  DataImages images;
  LoggedUpdate& logged = images.logged.emplace_back();
  logged.count = kCount;
  logged.update.gradient = Frame::copy_of(gradient.bytes());
  const auto sent = pair.send(images);
  REQUIRE(sent.has_value());
  CHECK(pair.frames == 1);
  CHECK(holds(sent.value().logged.at(0).update.gradient, gradient));

  // More elements are announced than the memory lent has.
  DataImages arrived = pair.arrive(images);
  arrived.logged[0].count = std::uint64_t{1} << 38U;
  const auto refused = pair.backup->take(arrived);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("bytes of images are lent with one message"));
}

TEST_CASE("images lent to a backup that has ended are taken by no other process", "[image_links]") {
  Pair pair;
  pair.agree();
  pair.backup.emplace(new_arena());
  const auto refused = pair.send(pair.images());
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message,
             Contains("images in shared memory that this process does not read"));
}

TEST_CASE("a primary that ends leaves what it has lent as it was", "[image_links]") {
  const auto arena = new_arena();
  ImageLinks backup(new_arena());
  DataImages arrived;
  {
    // Large enough that its pages would be returned.
    ImageLinks primary(arena);
    BufferPool pool(Bytes(0), arena);
    primary.add(kBackup);
    pb::SliceImagesReply reply;
    backup.answer(*decoded(message_of(primary, {})).memory, reply);
    primary.hear(kBackup, reply);
    const Buffer values = pool.acquire(4UL << 20U);
    std::ranges::fill(values.floats(), 3.0F);
    DataImages images;
    images.images.emplace_back().values = Frame(values);
    arrived = decoded(message_of(primary, std::move(images)));
    primary.abandon_memory();
  }
  REQUIRE(backup.take(arrived).has_value());
  const Frame& copy = arrived.images.at(0).values;
  const auto* floats = reinterpret_cast<const float*>(copy.bytes().data());
  CHECK(std::all_of(floats, floats + copy.size() / sizeof(float),
                    [](float value) { return value == 3.0F; }));
}

TEST_CASE("memory that cannot be mapped is offered nothing, as that of another machine",
          "[image_links]") {
  Pair pair;
  auto images = pair.send(pair.images());
  REQUIRE(images.has_value());
  std::string& probe = *images.value().memory->mutable_probe();
  probe[0] = static_cast<char>(probe[0] + 1);
  pb::SliceImagesReply reply;
  pair.backup->answer(*images.value().memory, reply);
  CHECK_FALSE(reply.has_shared_memory());
  pair.primary.hear(kBackup, reply);
  CHECK(pair.primary.link(kBackup) == nullptr);
}

TEST_CASE("what is lent with images that are not expected is returned", "[image_links]") {
  Pair pair;
  pair.agree();
  const DataImages arrived = pair.arrive(pair.images());
  CHECK(pair.primary.link(kBackup)->on_loan() == 2);
  pair.backup->give_back(arrived);
  pair.primary.hear(kBackup, pb::SliceImagesReply());
  CHECK(pair.primary.link(kBackup)->on_loan() == 0);
}

TEST_CASE("one message makes a backup copy no more than a primary lends", "[image_links]") {
  Pair pair;
  pair.agree();
  DataImages arrived = pair.arrive(pair.images());
  arrived.images[0].lent_bytes = 33UL << 20U;
  const auto refused = pair.backup->take(arrived);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("bytes of images are lent with one message"));
}

TEST_CASE("places outside of the primary's memory are refused", "[image_links]") {
  Pair pair;
  pair.agree();
  DataImages arrived = pair.arrive(pair.images());
  arrived.images[0].lent[1].offset = ~std::uint64_t{0} - 64;
  CHECK_FALSE(pair.backup->take(arrived).has_value());
}

TEST_CASE("a primary whose loans are lost sends bytes before it lends too much", "[image_links]") {
  Pair pair;
  pair.agree();
  const Buffer large = pair.pool.acquire(16UL << 20U);
  for (int i = 0; i < 20; ++i) {
    DataImages images;
    images.images.emplace_back().values = Frame(large);
    static_cast<void>(pair.arrive(std::move(images)));
  }
  CHECK(pair.primary.link(kBackup) == nullptr);
  const auto sent = pair.send(pair.images());
  REQUIRE(sent.has_value());
  CHECK(pair.frames == 3);
}

}  // namespace taut::server
