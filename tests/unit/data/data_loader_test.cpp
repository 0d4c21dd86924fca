#include "worker/data/data_loader.hpp"

#include <chrono>
#include <new>

#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using taut::Clock;
using taut::data::Batch;
using taut::data::DataLoader;
using taut::data::Dataset;
using taut::data::Sampler;
using taut::data::Transform;

namespace {

/// Records of two channels whose pixel p of record i is (i + 10 * p) mod 256.
class Numbers final : public Dataset {
 public:
  static constexpr std::size_t kRecords = 50;
  Numbers() {
    for (std::size_t i = 0; i < kRecords; ++i) {
      for (std::size_t p = 0; p < 12; ++p) bytes_.push_back(static_cast<std::uint8_t>(i + 10 * p));
    }
  }
  std::uint64_t size() const override { return kRecords; }
  taut::data::ImageShape shape() const override { return {2, 2, 3}; }
  std::uint8_t label(std::uint64_t index) const override {
    return static_cast<std::uint8_t>(index % 10);
  }
  std::span<const std::uint8_t> pixels(std::uint64_t index) const override {
    return std::span(bytes_).subspan(index * 12, 12);
  }
  taut::Result<void> check_labels(std::int64_t) const override { return taut::ok(); }

 private:
  std::vector<std::uint8_t> bytes_;
};

std::shared_ptr<const Sampler> shuffled() {
  return taut::data::shuffled_sampler(Numbers::kRecords, {}, 8, 3).value();
}

std::unique_ptr<DataLoader> start(DataLoader::Options options) {
  auto started = DataLoader::start(std::make_shared<Numbers>(), shuffled(), std::move(options));
  REQUIRE(started.has_value());
  return std::move(started.value());
}

std::string error_of(DataLoader::Options options) {
  const auto started =
      DataLoader::start(std::make_shared<Numbers>(), shuffled(), std::move(options));
  REQUIRE_FALSE(started.has_value());
  return started.error().message;
}

Batch next(DataLoader& loader) {
  auto batch = loader.next(10s);
  REQUIRE(batch.has_value());
  return std::move(batch.value());
}

class OutOfMemory final : public Sampler {
 public:
  std::uint32_t batch() const override { return 1; }
  std::uint64_t index(Clock, std::uint32_t) const override { throw std::bad_alloc(); }
};

}  // namespace

TEST_CASE("a batch holds what the sampler drew, transformed", "[loader]") {
  const auto loader = start({.start = Clock(4), .transform = {.scale = 0.5F, .mean = {10, 20}}});
  const auto sampler = shuffled();
  for (std::int64_t clock = 4; clock < 20; ++clock) {
    const Batch batch = next(*loader);
    REQUIRE(batch.clock == Clock(clock));
    REQUIRE(batch.images.size() == 8 * 12);
    REQUIRE(batch.labels.size() == 8);
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint64_t record = sampler->index(Clock(clock), i);
      CHECK(batch.labels[i] == static_cast<float>(record % 10));
      for (std::size_t p = 0; p < 12; ++p) {
        const auto pixel = static_cast<float>((record + 10 * p) % 256);
        CHECK(batch.images[i * 12 + p] == (pixel - (p < 6 ? 10.0F : 20.0F)) * 0.5F);
      }
    }
  }
}

TEST_CASE("batches do not depend on depth, recycling or where the loader starts", "[loader]") {
  const auto deep = start({.start = Clock(0), .depth = 7, .transform = {}});
  const auto shallow = start({.start = Clock(0), .depth = 1, .transform = {}});
  const auto late = start({.start = Clock(10), .transform = {}});
  for (std::int64_t clock = 0; clock < 30; ++clock) {
    Batch one = next(*deep);
    const Batch two = next(*shallow);
    CHECK(one.images == two.images);
    CHECK(one.labels == two.labels);
    if (clock >= 10) CHECK(next(*late).images == one.images);
    deep->recycle(std::move(one));
  }
}

TEST_CASE("recycled memory is used again", "[loader]") {
  const auto loader = start({.start = Clock(0), .depth = 2, .transform = {}});
  Batch batch = next(*loader);
  const float* memory = batch.images.data();
  loader->recycle(std::move(batch));
  bool again = false;
  for (int i = 0; i < 10 && !again; ++i) {
    batch = next(*loader);
    again = batch.images.data() == memory;
    loader->recycle(std::move(batch));
  }
  CHECK(again);
}

TEST_CASE("a loader that nobody reads from ends", "[loader]") {
  for (int i = 0; i < 20; ++i) start({.start = Clock(0), .depth = 1, .transform = {}});
  SUCCEED("every loader joined its thread");
}

TEST_CASE("a thread that cannot go on says why", "[loader]") {
  const auto loader =
      DataLoader::start(std::make_shared<Numbers>(), std::make_shared<OutOfMemory>(), {});
  REQUIRE(loader.has_value());
  const auto batch = loader.value()->next(10s);
  REQUIRE_FALSE(batch.has_value());
  CHECK(batch.error().code == taut::ErrorCode::kClosed);
  CHECK(batch.error().message.find("the data loader ended: ") == 0);
  CHECK(batch.error().message.find("bad_alloc") != std::string::npos);
}

TEST_CASE("a loader that cannot work is refused", "[loader]") {
  CHECK(error_of({.start = Clock(0), .depth = 0, .transform = {}}) ==
        "the loader's depth is 0; it begins at 1");
  CHECK(error_of({.start = Clock(0), .transform = {.scale = 1, .mean = {1, 2, 3}}}) ==
        "3 means for images of 2 channels: give one, or one for each");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(error_of({.start = Clock(0), .transform = {.scale = nan, .mean = {}}}) ==
        "the transform's scale nan or one of its means () is no number");
}
