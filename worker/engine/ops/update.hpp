#pragma once

#include <vector>

#include "common/math/codec.hpp"
#include "common/math/update_rules.hpp"
#include "worker/engine/device_memory.hpp"

// Updates of parameters that live on the device: training without a server, and what a worker does
// to its own copy between two clocks.
namespace taut {

/// One replica's gradient of a table, and the factor that clipping gives it.
struct DeviceGradient {
  DeviceSpan<const float> values;
  float scale = 1;
};

/// What is applied to the sum of the gradients, in the order given, times `scale`.
struct DeviceUpdate {
  math::RuleKind kind = math::RuleKind::kSgd;
  math::UpdateStep step;
  float scale = 1;
};

/// The update of a table, or of a part of one.
struct TableUpdate {
  DeviceUpdate update;
  std::vector<DeviceGradient> gradients;
  DeviceSpan<float> values;
  std::vector<DeviceSpan<float>> state;
};

/// How a slice of an update is encoded.
struct SliceEncoding {
  math::Encoding encoding;
  math::Draw draw;
};

/// The average of a table: it moves towards the contributions' mean by `share` of the way.
struct TableAverage {
  std::vector<DeviceGradient> contributions;
  float share = 1;
  DeviceSpan<float> values;
};

}  // namespace taut
