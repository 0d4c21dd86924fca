#include "worker/data/record_source.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace taut::data {

std::uint64_t draw_key(std::uint64_t seed, std::uint32_t slot) {
  constexpr std::string_view kUse = "record draws";
  const math::Philox draw =
      math::Philox::at(seed, math::name_stream(kUse.data(), kUse.size()), slot);
  return std::uint64_t{draw.words[1]} << 32U | draw.words[0];
}

Result<void> check_label(const std::string& name, std::uint64_t record, std::int64_t label,
                         const RecordSource::LabelRange& range) {
  if ((label >= 0 && label < range.classes) || label == range.ignored) return ok();
  return invalid(fmt::format("{}: record {} has label {}, but the net has {} classes (0 to {})",
                             name, record, label, range.classes, range.classes - 1));
}

Result<void> check_class(const std::string& name, std::uint64_t record, float label,
                         const RecordSource::LabelRange& range) {
  constexpr float kMaxWhole = 16777216;  // beyond it floats skip some whole numbers
  if (std::fabs(label) <= kMaxWhole && std::floor(label) == label) {
    return check_label(name, record, static_cast<std::int64_t>(label), range);
  }
  return invalid(
      fmt::format("{}: record {} has label {}, which is not a class: labels must be whole numbers",
                  name, record, label));
}

Result<std::unique_ptr<Sampler>> RecordSource::sampler(const FeedOptions& options) const {
  if (options.part == Part::kTest) return sequential_sampler(size(), options.batch);
  return shuffled_sampler(size(), options.share, options.batch, options.seed);
}

}  // namespace taut::data
