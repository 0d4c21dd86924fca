#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// The net in the current vocabulary: `layers` of Caffe before 2015 as `layer`, and `input` with
/// its shapes as an Input layer at the front. A current net does not change.
/// Errors    invalid: layers of both vocabularies, a layer without a type, inputs without shapes
/// Source    Caffe, src/caffe/util/upgrade_proto.cpp
[[nodiscard]] Result<pb::NetParameter> upgrade_net(const pb::NetParameter& net);

/// A warning line for each field of a net that has no effect.
[[nodiscard]] std::vector<std::string> net_warnings(const pb::NetParameter& net);

}  // namespace taut::model
