#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <span>

#include "common/result.hpp"

namespace taut {

/// Checks that every string and every list of a message is within what its schema allows
/// (proto/limits.proto); a field without a limit is bounded only by the size of the whole message.
/// A string that has a limit must also be UTF-8, or no peer reads the message.
/// Errors    invalid: the first one that is not, with its path, size and limit
[[nodiscard]] Result<void> check_limits(const google::protobuf::Message& message);

/// Checks that the bytes of a message, once they are parsed, take no more memory than a message
/// may. A list of empty elements takes a hundred times its bytes, so this is checked before
/// parsing; a short message is not checked.
/// prototype  any message of the type
/// Errors     invalid: it would take more, or has a group
[[nodiscard]] Result<void> check_parsed_bytes(const google::protobuf::Message& prototype,
                                              std::span<const std::byte> bytes);

/// Checks that every string of a message is UTF-8. Messages of proto2, such as a job's definition,
/// may contain others, and no peer reads a message of proto3 into which one of these is copied.
/// Errors    invalid: the first one that is not, with its path
[[nodiscard]] Result<void> check_utf8(const google::protobuf::Message& message);

/// Cuts strings that are longer than their limits, between characters of UTF-8, and marks them as
/// cut; bytes of them that are not UTF-8, as names of files may have, are written as "\xe9": the
/// text of an error must not keep a message from being read.
void cut_to_limits(google::protobuf::Message& message);

/// Writes out the control characters of every string that has a limit, so that it can be shown in
/// a terminal; ends of lines stay.
void make_printable(google::protobuf::Message& message);

}  // namespace taut
