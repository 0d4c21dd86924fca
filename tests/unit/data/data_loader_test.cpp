#include "worker/data/data_loader.hpp"

#include <chrono>
#include <new>
#include <set>

#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using namespace taut;
using data::Batch;
using data::DataLoader;
using data::Feed;
using data::RecordDraw;
using data::RecordSource;

namespace {

/// Records of three fields: (2, 3) numbers, (4) numbers whose batch is behind them, and a
/// random word.
class Numbers final : public RecordSource {
 public:
  static constexpr std::uint64_t kRecords = 50;
  static constexpr std::uint64_t kEveryone = 1000;

  std::uint64_t size() const override { return kRecords; }
  const RecordShape& fields() const override { return fields_; }
  Result<void> read(std::uint64_t index, const RecordDraw& draw,
                    std::span<const std::span<float>> into) const override {
    if (index == bad || bad == kEveryone) return invalid("record 7 is bad");
    for (std::size_t i = 0; i < 6; ++i) into[0][i] = static_cast<float>(index * 10 + i);
    if (into.size() > 1) {
      for (std::size_t i = 0; i < 4; ++i) into[1][i] = static_cast<float>(index * 100 + i);
    }
    if (into.size() > 2) into[2][0] = math::unit_float(draw.word(0));
    return ok();
  }

  std::uint64_t bad = kRecords;

 private:
  RecordShape fields_{{.shape = {2, 3}}, {.shape = {4}, .batch_axis = 1}, {}};
};

constexpr std::uint32_t kBatch = 8;

data::FeedOptions options_of(std::uint32_t slot = 0) {
  return {.part = data::Part::kTrain, .share = {slot, 2}, .batch = kBatch, .seed = 3};
}

std::vector<std::unique_ptr<Feed>> feeds(std::size_t tops = 3, std::uint32_t slot = 0) {
  std::vector<std::unique_ptr<Feed>> list;
  list.push_back(
      std::move(data::record_feed(std::make_shared<Numbers>(), options_of(slot), tops).value()));
  return list;
}

std::unique_ptr<DataLoader> start(std::vector<std::unique_ptr<Feed>> list,
                                  DataLoader::Options options = {}) {
  auto started = DataLoader::start(std::move(list), options);
  REQUIRE(started.has_value());
  return std::move(started.value());
}

Batch next(DataLoader& loader) {
  auto batch = loader.next(10s);
  REQUIRE(batch.has_value());
  return std::move(batch.value());
}

class OutOfMemory final : public Feed {
 public:
  const std::vector<std::size_t>& elements() const override { return elements_; }
  Result<void> fill(Clock, std::span<const std::span<float>>) override { throw std::bad_alloc(); }

 private:
  std::vector<std::size_t> elements_{1};
};

}  // namespace

TEST_CASE("a batch has the sampler's records, each field in its layout", "[loader]") {
  const auto loader = start(feeds(), {.start = Clock(4)});
  const auto sampler = data::shuffled_sampler(Numbers::kRecords, {0, 2}, kBatch, 3).value();
  for (std::int64_t clock = 4; clock < 20; ++clock) {
    const Batch batch = next(*loader);
    REQUIRE(batch.clock == Clock(clock));
    REQUIRE(batch.blobs.size() == 3);
    REQUIRE(batch.blobs[0].size() == kBatch * 6);
    REQUIRE(batch.blobs[1].size() == kBatch * 4);
    REQUIRE(batch.blobs[2].size() == kBatch);
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint64_t record = sampler->index(Clock(clock), i);
      for (std::size_t p = 0; p < 6; ++p) {
        CHECK(batch.blobs[0][i * 6 + p] == static_cast<float>(record * 10 + p));
      }
      for (std::size_t t = 0; t < 4; ++t) {
        CHECK(batch.blobs[1][t * kBatch + i] == static_cast<float>(record * 100 + t));
      }
    }
  }
}

TEST_CASE("random transforms depend on the seed, the member, the clock and the place", "[loader]") {
  const auto first = start(feeds());
  const auto again = start(feeds());
  const auto other_member = start(feeds(3, 1));
  const Batch one = next(*first);
  CHECK(one.blobs[2] == next(*again).blobs[2]);
  CHECK(one.blobs[2] != next(*other_member).blobs[2]);
  CHECK(one.blobs[2] != next(*first).blobs[2]);
  CHECK(one.blobs[2][0] != one.blobs[2][1]);
}

TEST_CASE("several data layers are fed side by side", "[loader]") {
  auto list = feeds(1);
  list.push_back(std::move(feeds(2, 1)[0]));
  const auto loader = start(std::move(list));
  const Batch batch = next(*loader);
  REQUIRE(batch.blobs.size() == 3);
  CHECK(batch.blobs[1] == next(*start(feeds(2, 1))).blobs[0]);
  CHECK(batch.spans()[2].size() == kBatch * 4);
}

TEST_CASE("batches do not depend on depth, recycling, a thread or where the loader starts",
          "[loader]") {
  const auto deep = start(feeds(), {.start = Clock(0), .depth = 7});
  const auto shallow = start(feeds(), {.start = Clock(0), .depth = 1});
  const auto late = start(feeds(), {.start = Clock(10)});
  const auto asked = start(feeds(), {.start = Clock(0), .loading = data::Loading::kOnRequest});
  for (std::int64_t clock = 0; clock < 30; ++clock) {
    Batch one = next(*deep);
    const Batch two = next(*shallow);
    CHECK(one.blobs == two.blobs);
    Batch three = next(*asked);
    CHECK(three.clock == Clock(clock));
    CHECK(three.blobs == two.blobs);
    asked->recycle(std::move(three));
    if (clock >= 10) CHECK(next(*late).blobs == one.blobs);
    deep->recycle(std::move(one));
  }
}

TEST_CASE("recycled memory is used again", "[loader]") {
  const auto loader = start(feeds(), {.start = Clock(0), .depth = 2});
  Batch batch = next(*loader);
  const float* memory = batch.blobs[0].data();
  loader->recycle(std::move(batch));
  bool again = false;
  for (int i = 0; i < 10 && !again; ++i) {
    batch = next(*loader);
    again = batch.blobs[0].data() == memory;
    loader->recycle(std::move(batch));
  }
  CHECK(again);
}

TEST_CASE("constants are written once into memory that is reused", "[loader]") {
  std::vector<data::DummyTop> tops(1);
  tops[0] = {.filler = {math::Filler::Kind::kConstant, 2.5F, 0}, .elements = 4};
  std::vector<std::unique_ptr<Feed>> list;
  list.push_back(data::dummy_feed(std::move(tops), options_of(0), "same"));
  const auto loader = start(std::move(list), {.start = Clock(0), .depth = 1});
  bool marked = false;
  for (int i = 0; i < 20; ++i) {
    Batch batch = next(*loader);
    // What a consumer has put there is still there: the loader did not overwrite it.
    if (batch.blobs[0][3] == -1) marked = true;
    CHECK(batch.blobs[0][0] == 2.5F);
    batch.blobs[0][3] = -1;
    loader->recycle(std::move(batch));
  }
  CHECK(marked);
}

TEST_CASE("batches are in the loader's memory", "[loader]") {
  std::vector<float> room(1000);
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size() * sizeof(float),
                                             std::pmr::null_memory_resource());
  const auto loader = start(feeds(), {.start = Clock(0), .depth = 1, .memory = &memory});
  const Batch batch = next(*loader);
  for (const auto& blob : batch.blobs) {
    CHECK(blob.data() >= room.data());
    CHECK(blob.data() + blob.size() <= room.data() + room.size());
  }
}

TEST_CASE("a loader without a reader ends", "[loader]") {
  for (int i = 0; i < 20; ++i) start(feeds(), {.start = Clock(0), .depth = 1});
  SUCCEED("every loader joined its thread");
}

TEST_CASE("a thread that cannot continue reports why", "[loader]") {
  std::vector<std::unique_ptr<Feed>> list;
  list.push_back(std::make_unique<OutOfMemory>());
  const auto batch = start(std::move(list))->next(10s);
  REQUIRE_FALSE(batch.has_value());
  CHECK(batch.error().code == ErrorCode::kClosed);
  CHECK(batch.error().message.find("the data loader ended: ") == 0);
  CHECK(batch.error().message.find("bad_alloc") != std::string::npos);
}

TEST_CASE("a record that cannot be read ends the loader with its name", "[loader]") {
  auto source = std::make_shared<Numbers>();
  source->bad = 7;
  data::FeedOptions options = options_of();
  options.part = data::Part::kTest;
  std::vector<std::unique_ptr<Feed>> list;
  list.push_back(std::move(data::record_feed(source, options, 1).value()));
  const auto batch = start(std::move(list))->next(10s);
  REQUIRE_FALSE(batch.has_value());
  CHECK(batch.error().message == "the data loader ended: record 7 is bad");
}

TEST_CASE("a skipped corrupt record is replaced with the next good one", "[loader]") {
  auto source = std::make_shared<Numbers>();
  source->bad = 7;
  data::FeedOptions options = options_of();
  options.part = data::Part::kTest;
  options.skip_corrupt = true;
  std::vector<std::unique_ptr<Feed>> list;
  list.push_back(std::move(data::record_feed(source, options, 1).value()));
  const Batch batch = next(*start(std::move(list)));
  CHECK(batch.blobs[0][6 * 6] == 60);
  CHECK(batch.blobs[0][7 * 6] == 80);
}

TEST_CASE("a source without a good record ends with an error", "[loader]") {
  auto source = std::make_shared<Numbers>();
  source->bad = Numbers::kEveryone;
  data::FeedOptions options = options_of();
  options.skip_corrupt = true;
  std::vector<std::unique_ptr<Feed>> list;
  list.push_back(std::move(data::record_feed(source, options, 1).value()));
  const auto batch = start(std::move(list))->next(10s);
  REQUIRE_FALSE(batch.has_value());
  CHECK(batch.error().message.find("50 records in a row cannot be read") != std::string::npos);
}

TEST_CASE("dummy data follows its fillers, drawn again at each clock", "[loader]") {
  const auto make = [](std::uint32_t slot) {
    std::vector<data::DummyTop> tops(3);
    tops[0] = {.filler = {math::Filler::Kind::kConstant, 2.5F, 0}, .elements = 4};
    tops[1] = {.filler = {math::Filler::Kind::kGaussian, 0, 1}, .elements = 1000};
    tops[2] = {.filler = {}, .elements = 1000, .classes = 7};
    std::vector<std::unique_ptr<Feed>> list;
    list.push_back(data::dummy_feed(std::move(tops), options_of(slot), "noise"));
    return list;
  };
  const auto loader = start(make(0));
  const Batch first = next(*loader);
  CHECK(first.blobs[0] == std::pmr::vector<float>(4, 2.5F));
  std::set<float> labels(first.blobs[2].begin(), first.blobs[2].end());
  CHECK(labels == std::set<float>{0, 1, 2, 3, 4, 5, 6});
  CHECK(first.blobs[1] == next(*start(make(0))).blobs[1]);
  CHECK(first.blobs[1] != next(*start(make(1))).blobs[1]);
  CHECK(first.blobs[1] != next(*loader).blobs[1]);
}

TEST_CASE("a loader that cannot work is refused", "[loader]") {
  const auto started = DataLoader::start(feeds(), {.start = Clock(0), .depth = 0});
  REQUIRE_FALSE(started.has_value());
  CHECK(started.error().message == "the loader's depth must be at least 1, is 0");
  const auto feed = data::record_feed(std::make_shared<Numbers>(), options_of(), 4);
  REQUIRE_FALSE(feed.has_value());
  CHECK(feed.error().message == "4 tops are fed from records of 3 fields");
}
