#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// The net as it reads in today's vocabulary: `layers` of Caffe before 2015 as `layer`, and `input`
/// with its shapes as an Input layer at the front. A net of today comes back as it is.
/// Errors    invalid: layers of both vocabularies, a layer without a type, inputs without shapes
/// Source    Caffe, src/caffe/util/upgrade_proto.cpp
[[nodiscard]] Result<pb::NetParameter> upgrade_net(const pb::NetParameter& net);

/// What a net says in vain, one line for each field, for the user to be warned of.
[[nodiscard]] std::vector<std::string> net_warnings(const pb::NetParameter& net);

}  // namespace taut::model
