#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/net/security.hpp"
#include "common/result.hpp"

namespace taut {

/// The contents of a key's file. Its text has one "field: value" per line:
///
///   name: gpu1
///   role: worker
///   public: RK2...                 40 characters of Z85, like all keys
///   secret: 9h!...                 only in NAME.key
///   cluster: X0q...                in NAME.key: the public key of listening processes
///   cluster_secret: 7Tk...         in the NAME.key of servers and of the owner
///
/// Empty lines and lines that start with '#' are ignored.
struct KeyFile {
  Identity identity;
  KeyPair own;  // of an admitted/ entry: only the public key
  std::string cluster_key;
  std::string cluster_secret;
};

[[nodiscard]] std::string to_text(const KeyFile& file);
/// Errors    invalid: names the line
[[nodiscard]] Result<KeyFile> parse_key_file(std::string_view text, const std::string& path);

/// "worker"; "owner" is not a role that users assign.
[[nodiscard]] std::string_view role_name(KeyRole role);
/// Errors    invalid: not the name of a role
[[nodiscard]] Result<KeyRole> role_of(std::string_view name);

/// Whether a name is valid for a key: 1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or a digit.
[[nodiscard]] bool is_key_name(std::string_view name);

/// Reads a regular file of at most 4 KiB that no other user can read or change.
/// Errors    not_found; invalid: others can read or change it, with the remedy; not such a file
[[nodiscard]] Result<std::string> read_private_file(const std::filesystem::path& path);
/// Writes it whole or not at all, readable only by its owner.
[[nodiscard]] Result<void> write_private_file(const std::filesystem::path& path,
                                              std::string_view text);
/// Errors    not_found; invalid: not a folder, or one that other users can read or change
[[nodiscard]] Result<void> check_private_folder(const std::filesystem::path& folder);

}  // namespace taut
