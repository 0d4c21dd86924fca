#include "worker/data/text_source.hpp"

#include <array>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/data/feed.hpp"

using namespace taut;
using data::FeedOptions;
using data::Part;

namespace {

using Blob = std::vector<float>;

struct TextBatch {
  Blob numbers, labels, cont, mask;
};

pb::TextParameter text_of(std::uint32_t steps) {
  pb::TextParameter text;
  text.set_steps(steps);
  return text;
}

class TextFile {
 public:
  explicit TextFile(const std::string& bytes) { folder_.write("input.txt", bytes); }
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "input.txt"; }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }

 private:
  test::TempFolder folder_;
};

std::unique_ptr<data::Feed> feed_of(const pb::TextParameter& text, const TextFile& file,
                                    const FeedOptions& options) {
  auto source = data::open_text(text, file.folder(), options.part).value();
  return data::record_feed(std::move(source), options, 4).value();
}

TextBatch batch_of(data::Feed& feed, std::int64_t clock) {
  const std::size_t count = feed.elements()[0];
  TextBatch batch{Blob(count), Blob(count), Blob(count), Blob(count)};
  const std::array<std::span<float>, 4> tops{batch.numbers, batch.labels, batch.cont, batch.mask};
  REQUIRE(feed.fill(Clock(clock), tops).has_value());
  return batch;
}

std::string error_of(const pb::TextParameter& text, const std::string& bytes) {
  const TextFile file(bytes);
  const auto opened = data::open_text(text, file.path(), Part::kTrain);
  REQUIRE_FALSE(opened.has_value());
  const std::string message = opened.error().message;
  const std::size_t name = message.find(file.path().string());
  return name == 0 ? message.substr(file.path().string().size()) : message;
}

}  // namespace

TEST_CASE("streams of text continue from batch to batch and restart at their end", "[text]") {
  // 12 parts of 2 units: 2 members with 2 places each walk through 3 separate parts.
  const TextFile file("abcdefghijklmnopqrstuvwxy");  // a has number 1
  FeedOptions options{.part = Part::kTrain, .share = {1, 2}, .batch = 2, .seed = 1};
  const auto feed = feed_of(text_of(2), file, options);
  const auto first = batch_of(*feed, 0);
  // Member 1's streams start at units 12 and 18. T x N: step by step, both streams side by side.
  CHECK(first.numbers == Blob{13, 19, 14, 20});
  CHECK(first.labels == Blob{14, 20, 15, 21});
  CHECK(first.cont == Blob{0, 0, 1, 1});
  CHECK(first.mask == Blob{1, 1, 1, 1});
  const auto second = batch_of(*feed, 1);
  CHECK(second.numbers == Blob{15, 21, 16, 22});
  CHECK(second.cont == Blob{1, 1, 1, 1});
  CHECK(batch_of(*feed, 2).labels == Blob{18, 24, 19, 25});
  CHECK(batch_of(*feed, 3).numbers == first.numbers);
  CHECK(batch_of(*feed, 3).cont == first.cont);
}

TEST_CASE("members' streams share the text without overlap", "[text]") {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>('!' + i % 90);
  const TextFile file(bytes);
  std::multiset<std::string> seen;
  for (const std::uint32_t slot : {0U, 1U, 2U}) {
    const FeedOptions options{.part = Part::kTrain, .share = {slot, 3}, .batch = 2, .seed = 1};
    const auto feed = feed_of(text_of(4), file, options);
    for (int clock = 0; clock < 4; ++clock) {  // 24 parts, 4 of them in each of 6 streams
      const auto batch = batch_of(*feed, clock);
      for (std::size_t place = 0; place < 2; ++place) {
        std::string part;
        for (std::size_t t = 0; t < 4; ++t)
          part += std::to_string(batch.numbers[2 * t + place]) + " ";
        seen.insert(part);
      }
    }
  }
  CHECK(seen.size() == 24);
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 24);
}

TEST_CASE("the parts of a member's streams are its streams", "[text]") {
  const TextFile file("abcdefghijklmnopqrstuvwxy");
  const FeedOptions whole{.part = Part::kTrain, .share = {1, 2}, .batch = 2, .seed = 1};
  const auto both = feed_of(text_of(2), file, whole);
  for (const std::uint32_t part : {0U, 1U}) {
    const FeedOptions options{.part = Part::kTrain,
                              .share = {.slot = 1, .slots = 2, .part = part, .parts = 2},
                              .batch = 1,
                              .seed = 1};
    const auto own = feed_of(text_of(2), file, options);
    for (int clock = 0; clock < 4; ++clock) {
      const auto expected = batch_of(*both, clock).numbers;
      CHECK(batch_of(*own, clock).numbers == Blob{expected[part], expected[2 + part]});
    }
  }
}

TEST_CASE("the test part is the text's last share, numbered by the training part", "[text]") {
  const TextFile file("aab\nba\nzab\n");
  pb::TextParameter text = text_of(2);
  text.set_test_share(0.5F);  // from the line after the middle on: "zab\n"
  const auto train =
      feed_of(text, file, {.part = Part::kTrain, .share = {}, .batch = 1, .seed = 1});
  CHECK(batch_of(*train, 0).numbers == Blob{2, 2});
  const auto test = feed_of(text, file, {.part = Part::kTest, .share = {}, .batch = 1, .seed = 1});
  CHECK(batch_of(*test, 0).numbers == Blob{0, 2});
  CHECK(batch_of(*test, 0).labels == Blob{2, 3});
  CHECK(data::text_vocabulary(text, file.folder()).value().size() == 4);
}

TEST_CASE("each line is a record, padded and masked, its end the last label", "[text]") {
  const TextFile file("ab\n\nabba\nb");  // the last one has no end
  pb::TextParameter text = text_of(3);
  text.set_sequences(pb::TextParameter::LINES);
  const auto feed = feed_of(text, file, {.part = Part::kTest, .share = {}, .batch = 2, .seed = 1});
  const auto batch = batch_of(*feed, 0);
  // "\n" 1, "a" 2, "b" 3; the second line is cut to 3 steps.
  CHECK(batch.numbers == Blob{2, 2, 3, 3, 0, 3});
  CHECK(batch.labels == Blob{3, 3, 1, 3, -1, 2});
  CHECK(batch.cont == Blob{0, 0, 1, 1, 1, 1});
  CHECK(batch.mask == Blob{1, 1, 1, 1, 0, 1});
}

TEST_CASE("a vocabulary may be built from another text", "[text]") {
  const TextFile file("to be or not to be\n");
  const TextFile other("not to\n");
  pb::TextParameter text = text_of(2);
  text.set_unit(pb::TextParameter::WORDS);
  text.set_vocabulary_source(other.path().string());
  const auto feed = feed_of(text, file, {.part = Part::kTrain, .share = {}, .batch = 1, .seed = 1});
  CHECK(batch_of(*feed, 0).numbers == Blob{3, 0});
  CHECK(batch_of(*feed, 1).labels == Blob{2, 3});
}

TEST_CASE("a text that does not fit its layer is refused with the reason", "[text]") {
  CHECK(error_of(text_of(0), "abc") == "text_param.steps must be at least 1, is missing or 0");
  CHECK(error_of(text_of(3), "abc") == ": 3 units in the training part; 3 steps need at least 4");
  CHECK(error_of(text_of(3), "") == ": 0 units in the training part; 3 steps need at least 4");
  pb::TextParameter share = text_of(3);
  share.set_test_share(1);
  CHECK(error_of(share, "abc") == "text_param.test_share must be in [0, 1), is 1");
  pb::TextParameter lines = text_of(3);
  lines.set_sequences(pb::TextParameter::LINES);
  CHECK(error_of(lines, "abc") == ": has no line with an end");
  const auto missing = data::open_text(text_of(3), "/nowhere", Part::kTrain);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().message.find("/nowhere: no such text; ") == 0);
}

TEST_CASE("streams that the text is too short for are refused", "[text]") {
  const TextFile file("abcdefg");
  const auto source = data::open_text(text_of(2), file.path(), Part::kTrain).value();
  const auto refused =
      source->sampler({.part = Part::kTrain, .share = {0, 2}, .batch = 2, .seed = 1});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message == file.path().string() +
                                       ": 3 parts of 2 steps are too few for 4 streams (a batch of "
                                       "2, 2 members)");
}

TEST_CASE("a net with too few classes for a text is refused", "[text]") {
  const TextFile file("abcdefg");
  const auto source = data::open_text(text_of(2), file.path(), Part::kTrain).value();
  CHECK(source->check_labels({.field = 1, .classes = 8, .ignored = {}}).has_value());
  const auto refused = source->check_labels({.field = 1, .classes = 7, .ignored = {}});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message ==
        file.path().string() +
            ": unit 6 has number 7, but the net has 7 classes (0 to 6): set "
            "its num_output to the vocabulary's size, at least 8");
}
