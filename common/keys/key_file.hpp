#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/net/security.hpp"
#include "common/result.hpp"

namespace taut {

/// What a key's file holds. Its text, one "field: value" a line:
///
///   name: gpu1
///   role: worker
///   public: RK2...                 40 characters of Z85, as all keys
///   secret: 9h!...                 in NAME.key alone
///   cluster: X0q...                in NAME.key: the public key of those that listen
///   cluster_secret: 7Tk...         in the NAME.key of servers and of the owner
///
/// Lines that start with '#' and empty ones mean nothing.
struct KeyFile {
  Identity identity;
  KeyPair own;  // of an entry among the admitted: the public key alone
  std::string cluster_key;
  std::string cluster_secret;
};

[[nodiscard]] std::string to_text(const KeyFile& file);
/// Errors    invalid: names the line
[[nodiscard]] Result<KeyFile> parse_key_file(std::string_view text, const std::string& path);

/// "worker"; "owner" is no role that people give.
[[nodiscard]] std::string_view role_name(KeyRole role);
/// Errors    invalid: no role's name
[[nodiscard]] Result<KeyRole> role_of(std::string_view name);

/// Whether a name can be a key's: 1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or a digit.
[[nodiscard]] bool is_key_name(std::string_view name);

/// A regular file of at most 4 KiB that no other user can read or change.
/// Errors    not_found; invalid: who may read it, and how to change that
[[nodiscard]] Result<std::string> read_private_file(const std::filesystem::path& path);
/// Writes it whole or not at all, readable by its owner alone.
[[nodiscard]] Result<void> write_private_file(const std::filesystem::path& path,
                                              std::string_view text);
/// Errors    not_found; invalid: no folder, or one that other users can read or change
[[nodiscard]] Result<void> check_private_folder(const std::filesystem::path& folder);

}  // namespace taut
