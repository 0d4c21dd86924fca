#pragma once

#include <google/protobuf/message.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace taut {

/// Reads a text protobuf. `name` denotes the text in messages, e.g. its path.
/// Errors: invalid, "name:line:column: what" of the first error; nested more than 100 deep.
[[nodiscard]] Result<void> parse_text(std::string_view text, const std::string& name,
                                      google::protobuf::Message& out);

/// Overload for a file of at most 16 MiB. Errors: also not_found.
[[nodiscard]] Result<void> read_text(const std::filesystem::path& path,
                                     google::protobuf::Message& out);

/// Keeps the protobuf library from writing to standard error about bytes that a peer sent: the
/// decoder reports them. Thread: main, before other threads start.
void silence_protobuf();

/// The message as text protobuf.
[[nodiscard]] std::string to_text(const google::protobuf::Message& message);

}  // namespace taut
