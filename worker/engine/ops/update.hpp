#pragma once

#include <vector>

#include "common/math/codec.hpp"
#include "common/math/update_rules.hpp"
#include "worker/engine/device_memory.hpp"

// Updates of parameters on the device: for training without a server, and of a worker's local copy
// between two clocks.
namespace taut {

/// One replica's gradient of a table, and its factor from clipping.
struct DeviceGradient {
  DeviceSpan<const float> values;
  float scale = 1;
};

/// The update that applies the sum of the gradients, in the order given, times `scale`.
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

/// Averaging of a table: its values move by the fraction `share` towards the contributions' mean.
struct TableAverage {
  std::vector<DeviceGradient> contributions;
  float share = 1;
  DeviceSpan<float> values;
};

}  // namespace taut
