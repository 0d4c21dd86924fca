#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace taut {

/// What the holder of a key may do: proto/rights.cpp has the table of messages.
enum class KeyRole : std::uint8_t {
  kView,    // reads: status, logs, snapshots
  kSubmit,  // in addition submits, changes and stops jobs
  kWorker,  // trains, as the worker of the key's name
  kServer,  // keeps parameters and coordinates, as the server of the key's name
  kOwner,   // everything, under any name: the user who made the keys
};

/// The holder of a key that is admitted.
struct Identity {
  std::string name;
  KeyRole role = KeyRole::kView;
};

/// A CURVE key pair, each key as 40 characters of Z85.
struct KeyPair {
  std::string public_key;
  std::string secret_key;
};

/// A new pair. Throws std::runtime_error if ZeroMQ was built without CURVE.
[[nodiscard]] KeyPair make_key_pair();

/// Whether a text has the form of a key: 40 characters of Z85.
[[nodiscard]] bool is_key(std::string_view text);

/// Which keys are currently admitted.
/// Thread    any
class Admission {
 public:
  virtual ~Admission() = default;

  /// The holder of a public key; nullptr if the key is not, or no longer, admitted. Called for each
  /// message, so it must be cheap.
  [[nodiscard]] virtual std::shared_ptr<const Identity> find(std::string_view public_key) const = 0;

  /// Reads changes. Called several times a second by one thread.
  virtual void refresh() {}
};

/// How the sockets of a context authenticate, and which peers they admit.
struct Security {
  /// Without keys: any process that can reach a port may do everything and read every byte.
  [[nodiscard]] static Security insecure() { return {}; }

  KeyPair own;                           // authenticates this process to peers that it connects to
  std::string cluster_key;               // the public key of listening processes
  std::string cluster_secret;            // its secret; empty: this process cannot listen
  std::shared_ptr<Admission> admission;  // of those that connect; required to listen
  bool plain_data = false;               // data_security: TOKEN. See Endpoint::use_token()

  [[nodiscard]] bool is_insecure() const { return own.public_key.empty(); }
};

}  // namespace taut
