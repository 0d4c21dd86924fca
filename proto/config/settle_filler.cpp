#include "proto/config/settle_filler.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "common/did_you_mean.hpp"
#include "proto/config/job_tables.hpp"

namespace taut {
namespace {

math::Fan fan_of(const std::vector<std::int64_t>& shape) {
  double count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<double>(extent);
  return {.in = count / static_cast<double>(shape[0]),
          .out = shape.size() > 1 ? count / static_cast<double>(shape[1]) : count};
}

math::FanMode fan_mode(pb::FillerParameter::VarianceNorm norm) {
  switch (norm) {
    case pb::FillerParameter::FAN_IN:
      return math::FanMode::kIn;
    case pb::FillerParameter::FAN_OUT:
      return math::FanMode::kOut;
    case pb::FillerParameter::AVERAGE:
      return math::FanMode::kAverage;
  }
  return math::FanMode::kIn;
}

Result<math::Filler> settle_gaussian(const pb::FillerParameter& filler,
                                     const std::vector<std::int64_t>& shape) {
  if (filler.std() < 0) {
    return invalid(fmt::format("is gaussian with std {}, which must be at least 0", filler.std()));
  }
  math::Filler settled{math::Filler::Kind::kGaussian, filler.mean(), filler.std()};
  if (filler.sparse() == -1) return settled;
  if (filler.sparse() < -1) {
    return invalid(fmt::format(
        "is gaussian with sparse {}, which must be at least 0, or -1 to keep all weights",
        filler.sparse()));
  }
  if (shape.empty()) {
    return invalid(fmt::format(
        "is gaussian with sparse {}, which requires a parameter with an axis of outputs",
        filler.sparse()));
  }
  if (filler.sparse() > shape[0]) {
    return invalid(
        fmt::format("is gaussian with sparse {}, but the parameter of shape {} has {} outputs: no "
                    "input can keep more weights",
                    filler.sparse(), words_of_shape(shape), shape[0]));
  }
  settled.sparse = filler.sparse();
  settled.outputs = shape[0];
  return settled;
}

Result<math::Filler> settle_bilinear(const std::vector<std::int64_t>& shape) {
  if (shape.size() == 4 && shape[2] == shape[3]) return math::bilinear(shape[3]);
  return invalid(
      fmt::format("is bilinear, which is for weights of four axes with square kernels, and the "
                  "parameter has shape {}",
                  words_of_shape(shape)));
}

}  // namespace

Result<math::Filler> settle_filler(const pb::FillerParameter& filler,
                                   const std::vector<std::int64_t>& shape) {
  for (const float value :
       {filler.value(), filler.min(), filler.max(), filler.mean(), filler.std()}) {
    if (!std::isfinite(value)) return invalid(fmt::format("has the number {}", value));
  }
  using Kind = math::Filler::Kind;
  if (filler.type() == "constant") return math::Filler{Kind::kConstant, filler.value(), 0};
  if (filler.type() == "uniform") {
    if (filler.min() <= filler.max()) {
      return math::Filler{Kind::kUniform, filler.min(), filler.max()};
    }
    return invalid(fmt::format("is uniform from {} to {}: min must not be greater than max",
                               filler.min(), filler.max()));
  }
  if (filler.type() == "gaussian") return settle_gaussian(filler, shape);
  if (filler.type() == "bilinear") return settle_bilinear(shape);
  const bool has_fans = filler.type() == "xavier" || filler.type() == "msra";
  if (has_fans && shape.empty()) {
    return invalid(
        fmt::format("is {}, which requires a parameter with an axis of outputs", filler.type()));
  }
  if (filler.type() == "xavier") {
    return math::xavier(fan_of(shape), fan_mode(filler.variance_norm()));
  }
  if (filler.type() == "msra") {
    return math::msra(fan_of(shape), fan_mode(filler.variance_norm()));
  }
  constexpr std::array<std::string_view, 6> kTypes{"constant", "uniform", "gaussian",
                                                   "xavier",   "msra",    "bilinear"};
  return invalid(fmt::format("is of unknown type \"{}\"{}; known are {}", filler.type(),
                             did_you_mean(filler.type(), kTypes), fmt::join(kTypes, ", ")));
}

}  // namespace taut
