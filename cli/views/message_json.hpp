#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace taut::cli {

/// A message as one JSON object on a line, with every field that is not a message, set or not,
/// under its own name. Integers are numbers, including 64-bit ones; enums are words; a number that
/// is not finite is null.
[[nodiscard]] std::string message_json(const google::protobuf::Message& message);

}  // namespace taut::cli
