#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "cli/commands/shared_options.hpp"
#include "common/keys/key_file.hpp"
#include "common/keys/key_folder.hpp"

namespace taut::cli {
namespace {

struct KeysOptions {
  std::string folder;
  std::string name;
  std::string role;

  /// The named folder, or else the user's own.
  [[nodiscard]] Result<std::filesystem::path> resolve() const {
    if (!folder.empty()) return std::filesystem::path(folder);
    return own_key_folder();
  }
};

Result<void> init(const KeysOptions& options) {
  TAUT_TRY(const auto folder, options.resolve());
  TAUT_TRY(init_keys(folder));
  fmt::print("{}: a new cluster's keys; owner.key may do everything and stays there\n",
             folder.string());
  return ok();
}

Result<void> add(const KeysOptions& options) {
  TAUT_TRY(const auto folder, options.resolve());
  TAUT_TRY(const KeyRole role, role_of(options.role));
  TAUT_TRY(const auto file, add_key(folder, options.name, role));
  fmt::print("{}: admitted as {}; copy the file to where \"{}\" runs, readable by its user alone\n",
             file.string(), options.role, options.name);
  return ok();
}

Result<void> revoke(const KeysOptions& options) {
  TAUT_TRY(const auto folder, options.resolve());
  TAUT_TRY(revoke_key(folder, options.name));
  fmt::print("\"{}\": key revoked, on open connections too within a second\n", options.name);
  return ok();
}

Result<void> list(const KeysOptions& options) {
  TAUT_TRY(const auto folder, options.resolve());
  TAUT_TRY(const auto keys, list_keys(folder));
  std::size_t width = 4;
  for (const AdmittedKey& key : keys) width = std::max(width, key.identity.name.size());
  fmt::print("{:{}}  {:6}  {}\n", "name", width, "role", "public key");
  for (const AdmittedKey& key : keys) {
    fmt::print("{:{}}  {:6}  {}\n", key.identity.name, width, role_name(key.identity.role),
               key.public_key);
  }
  return ok();
}

/// A command below `keys`, with --keys.
Command add_one(Command& keys, const char* name, const char* what, const char* example,
                const std::shared_ptr<KeysOptions>& options,
                Result<void> (*run)(const KeysOptions&), int& status) {
  Command command = keys.command(name, what, example);
  command
      .text("--keys", options->folder,
            "The folder of the keys (default: your own, $XDG_CONFIG_HOME/tautline/keys or "
            "~/.config/tautline/keys)")
      .value("DIR");
  command.on_run([options, run, name, &status] {
    if (const auto done = run(*options); !done) {
      status = fail(fmt::format("keys {}", name), done.error().message);
    }
  });
  return command;
}

}  // namespace

void add_keys(Command& keys, int& status) {
  keys.require_command();
  const auto options = std::make_shared<KeysOptions>();
  add_one(keys, "init", "Makes the keys of a new cluster: its own, and the owner's",
          "Example: tautline keys init --keys /srv/tautline/keys", options, init, status);
  Command added = add_one(keys, "add", "Makes a key and admits it",
                          "Example: tautline keys add gpu1 --role worker", options, add, status);
  added.text("NAME", options->name, "A daemon's name, or a user's").required().value("NAME");
  added
      .one_of("--role", options->role,
              "worker and server: joins as the daemon of that name. submit: submits, changes and "
              "stops jobs. view: reads",
              {"worker", "server", "submit", "view"})
      .required();
  Command revoked = add_one(keys, "revoke", "Revokes a key and removes its file",
                            "Example: tautline keys revoke gpu1", options, revoke, status);
  revoked.text("NAME", options->name, "The key's name").required().value("NAME");
  add_one(keys, "list", "Shows the keys that are admitted", "Example: tautline keys list", options,
          list, status);
}

}  // namespace taut::cli
