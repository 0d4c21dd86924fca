#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <string>
#include <vector>

namespace taut::cli {

/// Where a field is set, e.g. "job.textproto:3", by its full name: "solver_param.base_lr",
/// "data[0]".
using PlaceOf = std::function<std::string(const std::string& field)>;

/// Every setting that is in force, as text protobuf with the origin of each value in a comment:
/// "# flag" if it differs from the file, the place in the file, or "# default" for a field that
/// nothing sets. A net is only counted.
/// effective  the settings
/// from_file  the same without what the command line overrides
[[nodiscard]] std::vector<std::string> settings_text(const google::protobuf::Message& effective,
                                                     const google::protobuf::Message& from_file,
                                                     const PlaceOf& place_of);

}  // namespace taut::cli
