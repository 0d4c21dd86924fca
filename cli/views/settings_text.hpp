#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

namespace taut::cli {

/// Every setting that is in force, as text protobuf with the origin of each value in a comment:
/// "# flag" if it differs from the file, "# file", or "# default" for a field that nothing sets. A
/// net is only counted.
/// effective  the settings
/// from_file  the same without what the command line put over them
[[nodiscard]] std::vector<std::string> settings_text(const google::protobuf::Message& effective,
                                                     const google::protobuf::Message& from_file);

}  // namespace taut::cli
