#include "worker/data/text_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/file.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

using Numbers = std::vector<std::uint32_t>;

/// Writes one record's fields step by step.
class StepWriter {
 public:
  explicit StepWriter(std::span<const std::span<float>> into) : into_(into) {}

  void write(std::size_t step, std::uint32_t number, float label, bool continues, bool counts) {
    const float values[] = {static_cast<float>(number), label, continues ? 1.0F : 0.0F,
                            counts ? 1.0F : 0.0F};
    for (std::size_t field = 0; field < into_.size(); ++field) into_[field][step] = values[field];
  }

 private:
  std::span<const std::span<float>> into_;
};

class TextSource : public RecordSource {
 public:
  TextSource(const pb::TextParameter& text, std::string name, Numbers numbers)
      : text_(text),
        fields_(text_fields(text)),
        name_(std::move(name)),
        numbers_(std::move(numbers)) {}

  const RecordShape& fields() const override { return fields_; }

  Result<void> check_labels(const LabelRange& range) const override {
    const auto largest = std::ranges::max_element(numbers_);
    if (range.field != 1 || *largest < range.classes) return ok();
    return invalid(
        fmt::format("{}: unit {} has number {}, but the net has {} classes (0 to {}): "
                    "set its num_output to the vocabulary's size, at least {}",
                    name_, largest - numbers_.begin(), *largest, range.classes, range.classes - 1,
                    *largest + 1));
  }

 protected:
  [[nodiscard]] std::size_t steps() const { return text_.steps(); }

  const pb::TextParameter text_;
  const RecordShape fields_;
  const std::string name_;
  const Numbers numbers_;
};

/// The streams of all members together.
std::uint64_t streams_of(const FeedOptions& options) {
  return std::uint64_t{options.share.slots} * options.share.parts * options.batch;
}

/// Every place of every member's batch walks through its own stream.
class StreamSampler final : public Sampler {
 public:
  StreamSampler(std::uint64_t parts, const FeedOptions& options)
      : each_(parts / streams_of(options)),
        first_((std::uint64_t{options.share.slot} * options.share.parts + options.share.part) *
               options.batch),
        batch_(options.batch) {}

  std::uint32_t batch() const override { return batch_; }
  std::uint64_t index(Clock clock, std::uint32_t i) const override {
    const std::uint64_t step = static_cast<std::uint64_t>(clock.value()) % each_;
    return 2 * ((first_ + i) * each_ + step) + (step == 0 ? 1 : 0);
  }

 private:
  std::uint64_t each_;   // parts of a stream
  std::uint64_t first_;  // stream
  std::uint32_t batch_;
};

class StreamSource final : public TextSource {
 public:
  using TextSource::TextSource;

  std::uint64_t size() const override { return 2 * parts(); }

  Result<void> read(std::uint64_t index, const RecordDraw&,
                    std::span<const std::span<float>> into) const override {
    StepWriter writer(into);
    const std::uint32_t* units = numbers_.data() + index / 2 * steps();
    for (std::size_t t = 0; t < steps(); ++t) {
      writer.write(t, units[t], static_cast<float>(units[t + 1]), t > 0 || index % 2 == 0, true);
    }
    return ok();
  }

  bool batch_may_change() const override { return false; }

  Result<std::unique_ptr<Sampler>> sampler(const FeedOptions& given) const override {
    FeedOptions options = given;
    if (options.part == Part::kTest) options.share = {};
    const std::uint64_t streams = streams_of(options);
    if (streams > 0 && streams <= parts()) {
      return std::unique_ptr<Sampler>(std::make_unique<StreamSampler>(parts(), options));
    }
    return invalid(
        fmt::format("{}: {} parts of {} steps are too few for {} streams (a batch of {}, "
                    "{} members)",
                    name_, parts(), steps(), streams, options.batch * options.share.parts,
                    options.share.slots));
  }

 private:
  [[nodiscard]] std::uint64_t parts() const { return (numbers_.size() - 1) / steps(); }
};

class LineSource final : public TextSource {
 public:
  /// end  the number of a line's end
  LineSource(const pb::TextParameter& text, std::string name, Numbers numbers, std::uint32_t end)
      : TextSource(text, std::move(name), std::move(numbers)) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i] != end) continue;
      if (i > begin) lines_.push_back({begin, i - begin});
      begin = i + 1;
    }
  }

  std::uint64_t size() const override { return lines_.size(); }

  Result<void> read(std::uint64_t index, const RecordDraw&,
                    std::span<const std::span<float>> into) const override {
    StepWriter writer(into);
    const auto [begin, count] = lines_[index];
    const auto ignored = static_cast<float>(text_.ignore_label());
    for (std::size_t t = 0; t < steps(); ++t) {
      const bool counts = t < count;
      const std::uint32_t* unit = numbers_.data() + begin + t;
      writer.write(t, counts ? unit[0] : 0, counts ? static_cast<float>(unit[1]) : ignored, t > 0,
                   counts);
    }
    return ok();
  }

 private:
  struct Line {
    std::size_t begin = 0;
    std::size_t count = 0;  // units before the line's end
  };
  std::vector<Line> lines_;
};

/// Floats represent every whole number up to this one, and blobs hold the numbers as floats.
constexpr std::size_t kMaxEntries = 1U << 24U;

Result<void> check(const pb::TextParameter& text) {
  if (text.steps() == 0) return invalid("text_param.steps must be at least 1, is missing or 0");
  if (!(text.test_share() >= 0 && text.test_share() < 1)) {
    return invalid(
        fmt::format("text_param.test_share must be in [0, 1), is {}", text.test_share()));
  }
  if (text.vocabulary_size() <= kMaxEntries) return ok();
  return invalid(fmt::format("text_param.vocabulary_size must be at most {1}, is {0}",
                             text.vocabulary_size(), kMaxEntries));
}

struct Text {
  std::string name;
  std::string bytes;
};

Result<Text> read_place(const fs::path& place) {
  std::error_code ignored;
  fs::path file = place;
  if (fs::is_directory(place, ignored)) {
    file = place / "input.txt";
    if (!fs::exists(file, ignored)) file = place / "input.txt.gz";
  }
  if (!fs::exists(file, ignored)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: no such text; scripts/get_data tinyshakespeare fetches one, "
                                  "and the layer's data_param.source or --data names another",
                                  file.string()));
  }
  TAUT_TRY(std::string bytes, read_file_gz(file, Bytes(1ULL << 30U)));
  return Text{file.string(), std::move(bytes)};
}

/// The bytes of a part. The test part starts at the start of a line, if one follows.
std::string_view part_of(const pb::TextParameter& text, std::string_view bytes, Part part) {
  if (text.test_share() == 0) return bytes;
  const auto kept =
      static_cast<std::size_t>(static_cast<double>(bytes.size()) * (1 - double{text.test_share()}));
  const std::size_t line = bytes.find('\n', kept);
  const std::size_t cut = line == std::string_view::npos ? kept : line + 1;
  return part == Part::kTrain ? bytes.substr(0, cut) : bytes.substr(cut);
}

TextUnit unit_of(const pb::TextParameter& text) {
  return text.unit() == pb::TextParameter::WORDS ? TextUnit::kWords : TextUnit::kCharacters;
}

Result<Vocabulary> vocabulary_of(const pb::TextParameter& text, const Text& own) {
  if (!text.has_vocabulary_source()) {
    return Vocabulary::of(part_of(text, own.bytes, Part::kTrain), unit_of(text),
                          text.vocabulary_size());
  }
  TAUT_TRY(const Text other, read_place(text.vocabulary_source()));
  return Vocabulary::of(other.bytes, unit_of(text), text.vocabulary_size());
}

}  // namespace

RecordShape text_fields(const pb::TextParameter& text) {
  const RecordField each{.shape = {std::int64_t{text.steps()}}, .batch_axis = 1};
  return {each, each, each, each};
}

Result<Vocabulary> text_vocabulary(const pb::TextParameter& text, const fs::path& place) {
  TAUT_TRY(check(text));
  TAUT_TRY(const Text own, read_place(place));
  return vocabulary_of(text, own);
}

Result<std::shared_ptr<const RecordSource>> open_text(const pb::TextParameter& text,
                                                      const fs::path& place, Part part) {
  TAUT_TRY(check(text));
  TAUT_TRY(Text own, read_place(place));
  TAUT_TRY(const Vocabulary vocabulary, vocabulary_of(text, own));
  if (vocabulary.size() > kMaxEntries) {
    return invalid(
        fmt::format("{}: {} different units, but at most {} are supported: give "
                    "text_param.vocabulary_size",
                    own.name, vocabulary.size(), kMaxEntries));
  }
  Numbers numbers = vocabulary.encode(part_of(text, own.bytes, part));
  if (text.sequences() == pb::TextParameter::LINES) {
    const std::uint32_t end = vocabulary.encode("\n").front();
    auto source = std::make_shared<LineSource>(text, own.name, std::move(numbers), end);
    if (end != 0 && source->size() > 0) return std::shared_ptr<const RecordSource>(source);
    return invalid(fmt::format("{}: has no line with an end", own.name));
  }
  if (numbers.size() > text.steps()) {
    return std::shared_ptr<const RecordSource>(
        std::make_shared<StreamSource>(text, own.name, std::move(numbers)));
  }
  return invalid(fmt::format("{}: {} units in the {} part; {} steps need at least {}", own.name,
                             numbers.size(), part == Part::kTrain ? "training" : "test",
                             text.steps(), std::uint64_t{text.steps()} + 1));
}

}  // namespace taut::data
