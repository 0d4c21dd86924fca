#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/net/security.hpp"
#include "common/result.hpp"

namespace taut {

/// The keys of one cluster, in a folder that only its owner can use:
///
///   cluster.key       the key pair of listening processes; needed only to make more keys
///   NAME.key          what a process or a user needs to act as NAME, secrets included
///   admitted/NAME     the public key and the role of NAME, which listening processes read
///
/// A worker's or a user's machine needs only its NAME.key; a server's also needs admitted/.

/// Makes the folder, the cluster's key pair and the owner's key, "owner", which permits everything.
/// Errors    exists: the folder already has keys; io
[[nodiscard]] Result<void> init_keys(const std::filesystem::path& folder);

/// Makes and admits a key. Returns its file.
/// Errors    exists: the name is taken; invalid: no valid name; not_found: no keys in the folder
[[nodiscard]] Result<std::filesystem::path> add_key(const std::filesystem::path& folder,
                                                    const std::string& name, KeyRole role);

/// Admits a key of another folder, under its name and with its role, to this one's cluster.
[[nodiscard]] Result<void> admit_key(const std::filesystem::path& folder, const Identity& identity,
                                     const std::string& public_key);

/// Revokes a key and removes its file.
/// Errors    not_found: no such key; invalid: it is the owner's
[[nodiscard]] Result<void> revoke_key(const std::filesystem::path& folder, const std::string& name);

struct AdmittedKey {
  Identity identity;
  std::string public_key;
};

/// Sorted by name.
[[nodiscard]] Result<std::vector<AdmittedKey>> list_keys(const std::filesystem::path& folder);

/// The user's own key folder: $XDG_CONFIG_HOME/tautline/keys, or ~/.config/tautline/keys.
/// Errors    not_found: neither variable is set
[[nodiscard]] Result<std::filesystem::path> own_key_folder();

/// The user's own key folder, made if it does not exist yet; several processes may do so at once.
[[nodiscard]] Result<std::filesystem::path> ensure_own_keys();

/// A daemon's credentials: NAME.key, or else the owner's; and which processes it admits, if it
/// listens.
/// role      kServer or kWorker
/// Errors    not_found: no key for it, with the command that makes one
[[nodiscard]] Result<Security> daemon_security(const std::filesystem::path& folder,
                                               const std::string& name, KeyRole role);

/// A command's credentials: the owner's key, or else the folder's only key with a user's role.
/// Errors    not_found: none, or more than one
[[nodiscard]] Result<Security> user_security(const std::filesystem::path& folder);

}  // namespace taut
