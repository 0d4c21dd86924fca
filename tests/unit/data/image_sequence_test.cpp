#include "worker/data/image_sequence.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "tests/support/catch.hpp"
#include "tests/unit/data/stores.hpp"
#include "worker/data/image_source.hpp"

using namespace taut;
using data::Part;
using data::RecordDraw;

namespace {

/// Two images of 1 x 3 x 2 whose pixels are 1 to 6, and 7 to 12.
class Small final : public data::RecordSource {
 public:
  std::uint64_t size() const override { return 2; }
  const RecordShape& fields() const override { return fields_; }
  Result<void> read(std::uint64_t index, const RecordDraw&,
                    std::span<const std::span<float>> into) const override {
    std::iota(into[0].begin(), into[0].end(), static_cast<float>(6 * index + 1));
    if (into.size() > 1) into[1][0] = static_cast<float>(index);
    return ok();
  }

 private:
  RecordShape fields_ = labelled_image(1, 3, 2);
};

pb::ClipParameter clip_of(std::uint32_t frames, std::uint32_t size) {
  pb::ClipParameter clip;
  clip.set_frames(frames);
  clip.set_size(size);
  return clip;
}

struct Clip {
  std::vector<float> frames;
  float label = -1;
};

Clip read_clip(const data::RecordSource& source, std::uint64_t index, const RecordDraw& draw) {
  Clip clip{std::vector<float>(element_count(source.fields()[0]))};
  const std::array<std::span<float>, 2> into{clip.frames, std::span(&clip.label, 1)};
  REQUIRE(source.read(index, draw, into).has_value());
  return clip;
}

/// Where an image's first pixel is in a frame; the image occurs once and whole.
std::pair<int, int> place_in(std::span<const float> frame, int side, float first) {
  CHECK(std::accumulate(frame.begin(), frame.end(), 0.0F) == 6 * first + 15);
  const auto at = static_cast<int>(std::ranges::find(frame, first) - frame.begin());
  REQUIRE(at < side * side);
  CHECK(frame[static_cast<std::size_t>(at + 2 * side + 1)] == first + 5);
  return {at % side, at / side};
}

}  // namespace

TEST_CASE("an image as a sequence has a step for each row", "[image][sequence]") {
  const auto rows = data::image_rows(std::make_shared<Small>()).value();
  CHECK(rows->fields()[0] == RecordField{.shape = {3, 2}, .batch_axis = 1});
  CHECK(rows->fields()[1] == RecordField{});
  std::vector<float> image(6);
  const std::array<std::span<float>, 1> into{image};
  REQUIRE(rows->read(1, RecordDraw(1, Clock(0), 0), into).has_value());
  CHECK(image == std::vector<float>{7, 8, 9, 10, 11, 12});
}

TEST_CASE("a clip's image moves on in one direction, and that is its label", "[image][sequence]") {
  constexpr int kSide = 200;  // wide enough that it seldom meets a side
  const auto clips =
      data::moving_images(std::make_shared<Small>(), clip_of(5, kSide), Part::kTrain);
  REQUIRE(clips.has_value());
  const int directions[8][2] = {{1, 0},  {1, 1},   {0, 1},  {-1, 1},
                                {-1, 0}, {-1, -1}, {0, -1}, {1, -1}};
  std::array<int, 8> seen{};
  for (std::uint32_t place = 0; place < 60; ++place) {
    const Clip clip = read_clip(*clips.value(), 0, RecordDraw(1, Clock(0), place));
    const auto label = static_cast<std::size_t>(clip.label);
    REQUIRE(label < 8);
    ++seen[label];
    const auto frame = [&](std::size_t i) {
      return std::span(clip.frames).subspan(i * kSide * kSide, kSide * kSide);
    };
    const auto [x0, y0] = place_in(frame(0), kSide, 1);
    const auto [x1, y1] = place_in(frame(4), kSide, 1);
    const bool inside = x0 > 20 && x0 < 180 && y0 > 20 && y0 < 180;
    if (!inside) continue;
    CHECK((x1 - x0) * directions[label][0] >= 5 * std::abs(directions[label][0]));
    CHECK((y1 - y0) * directions[label][1] >= 5 * std::abs(directions[label][1]));
    if (directions[label][0] == 0) CHECK(std::abs(x1 - x0) <= 1);
    if (directions[label][1] == 0) CHECK(std::abs(y1 - y0) <= 1);
  }
  CHECK(std::ranges::count(seen, 0) == 0);
}

TEST_CASE("a moving image bounces off the sides and stays whole", "[image][sequence]") {
  const auto clips = data::moving_images(std::make_shared<Small>(), clip_of(20, 5), Part::kTrain);
  for (std::uint32_t place = 0; place < 20; ++place) {
    const Clip clip = read_clip(*clips.value(), 1, RecordDraw(1, Clock(0), place));
    for (std::size_t i = 0; i < 20; ++i) place_in(std::span(clip.frames).subspan(i * 25, 25), 5, 7);
  }
}

TEST_CASE("training draws a clip again each time, testing draws it once", "[image][sequence]") {
  const auto images = std::make_shared<Small>();
  const auto train = data::moving_images(images, clip_of(4, 40), Part::kTrain).value();
  const auto test = data::moving_images(images, clip_of(4, 40), Part::kTest).value();
  const RecordDraw one(1, Clock(0), 0), two(1, Clock(1), 0);
  CHECK(read_clip(*train, 0, one).frames == read_clip(*train, 0, one).frames);
  CHECK(read_clip(*train, 0, one).frames != read_clip(*train, 0, two).frames);
  CHECK(read_clip(*test, 0, one).frames == read_clip(*test, 0, two).frames);
}

TEST_CASE("images that cannot become sequences are refused", "[image][sequence]") {
  const auto colour =
      data::image_source(std::make_unique<test::Numbers>(), {}, "set").value();  // two channels
  CHECK(data::image_rows(colour).error().message ==
        "images of 2 channels: only those of one channel become sequences");
  CHECK(data::moving_images(colour, clip_of(2, 9), Part::kTrain).error().message ==
        "images of 2 channels: only those of one channel become sequences");
  const auto images = std::make_shared<Small>();
  CHECK(data::moving_images(images, clip_of(2, 2), Part::kTrain).error().message ==
        "clip_param.size is 2; for images of 3 x 2 it must be 3 to 4096");
  CHECK(data::moving_images(images, clip_of(0, 9), Part::kTrain).error().message ==
        "clip_param.frames must be in 1 to 4096, is 0");
}
