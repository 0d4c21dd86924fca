#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// Converts a net to the current vocabulary: `layers` of Caffe before 2015 become `layer`, and
/// `input` with its shapes becomes an Input layer at the front. A current net is unchanged.
/// Errors    invalid: layers in both vocabularies, a layer without a type, inputs without shapes
/// Source    Caffe, src/caffe/util/upgrade_proto.cpp
[[nodiscard]] Result<pb::NetParameter> upgrade_net(const pb::NetParameter& net);

/// A warning line for each field of a net that has no effect.
[[nodiscard]] std::vector<std::string> net_warnings(const pb::NetParameter& net);

}  // namespace taut::model
