#include "worker/data/image_source.hpp"

#include <limits>

#include "tests/support/catch.hpp"
#include "tests/unit/data/stores.hpp"

using namespace taut;
using data::image_source;
using data::RecordDraw;
using test::Numbers;

namespace {

const RecordDraw kDraw(1, Clock(0), 0);

std::string error_of(data::Transform transform) {
  const auto source = image_source(std::make_unique<Numbers>(), std::move(transform), "set");
  REQUIRE_FALSE(source.has_value());
  return source.error().message;
}

}  // namespace

TEST_CASE("an image's pixels are shifted by the mean and scaled", "[image]") {
  const auto source = image_source(std::make_unique<Numbers>(),
                                   {.scale = 0.5F, .mean = {10, 20}, .mean_image = {}}, "set")
                          .value();
  CHECK(source->size() == Numbers::kImages);
  CHECK(source->fields() == labelled_image(2, 2, 3));
  std::vector<float> image(12);
  float label = 0;
  const std::span<float> into[] = {image, {&label, 1}};
  for (std::uint64_t record = 0; record < Numbers::kImages; ++record) {
    REQUIRE(source->read(record, kDraw, into).has_value());
    CHECK(label == static_cast<float>(Numbers::label_of(record)));
    for (std::size_t p = 0; p < 12; ++p) {
      const auto pixel = static_cast<float>((record + 10 * p) % 256);
      CHECK(image[p] == (pixel - (p < 6 ? 10.0F : 20.0F)) * 0.5F);
    }
  }
}

TEST_CASE("labels may be far above 255, and are optional", "[image]") {
  const auto source = image_source(std::make_unique<Numbers>(), {}, "set").value();
  std::vector<float> image(12);
  float label = 0;
  const std::span<float> both[] = {image, {&label, 1}};
  REQUIRE(source->read(3, kDraw, both).has_value());
  CHECK(label == 3000);
  CHECK(source->read(3, kDraw, std::span(both, 1)).has_value());
}

TEST_CASE("a transform that cannot work is refused", "[image]") {
  CHECK(error_of({.scale = 1, .mean = {1, 2, 3}, .mean_image = {}}) ==
        "3 means for images of 2 channels: give one, or one for each");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(error_of({.scale = nan, .mean = {}, .mean_image = {}}) ==
        "the transform's scale nan or one of its means () is not finite");
}
