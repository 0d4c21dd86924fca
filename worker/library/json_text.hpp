#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "common/result.hpp"

namespace taut::library {

/// A message as a JSON object, keyed by its fields' names.
/// what    names it in the error
[[nodiscard]] Result<std::string> json_of(const google::protobuf::Message& message,
                                          const char* what);

/// A copy that tautline_free() frees.
[[nodiscard]] char* text_of(const std::string& text);

}  // namespace taut::library
