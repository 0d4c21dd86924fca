#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/net/message.hpp"
#include "common/types.hpp"

namespace taut {

/// What the holder of a secret may use it for.
enum class TokenUse : std::uint8_t {
  kRead = 1,   // follows a job
  kTrain = 2,  // is a member of a job, in one life
  kServe = 3,  // is a server
  kCheck = 4,  // sends a hello for no job, to measure a link
};

/// What a secret of a plain data plane is bound to; it is valid for nothing else.
struct TokenScope {
  TokenUse use = TokenUse::kRead;
  std::string public_key;        // the holder's, Z85: what is admitted or revoked
  JobId job{};                   // kRead, kTrain; otherwise 0
  std::uint64_t submission = 0;  // as job: distinguishes jobs with the same number
  WorkerId worker{};             // kTrain; otherwise 0
  Incarnation incarnation{};     // kTrain; otherwise 0

  friend bool operator==(const TokenScope&, const TokenScope&) = default;
};

/// A scope with the secrets that prove it: the first frame of each message on a plain data plane.
/// Any process that has one can act within its scope, so it is never printed, logged or stored.
class DataToken {
 public:
  /// Bytes of a request's frame: docs/WIRE.md, section 1.
  static constexpr std::size_t kRequestBytes = 93;
  static constexpr std::size_t kAnswerBytes = 32;

  /// From what the coordinator has sent; nullopt if the lengths are not a token's.
  [[nodiscard]] static std::optional<DataToken> from(std::string_view request,
                                                     std::string_view answer);

  /// Sent with each message of the holder.
  [[nodiscard]] const Frame& request() const { return request_; }
  /// Sent with each message to the holder. A process that impersonates a server cannot compute it
  /// from the request alone, but any real server sends it to any process that has the request.
  [[nodiscard]] const Frame& answer() const { return answer_; }

 private:
  DataToken(Frame request, Frame answer)
      : request_(std::move(request)), answer_(std::move(answer)) {}
  Frame request_;
  Frame answer_;
};

/// Whether two frames have the same bytes, in time that depends only on their lengths.
[[nodiscard]] bool same_secret(const Frame& a, const Frame& b);

/// Makes and checks the secrets of a cluster, by HMAC-SHA-256 with a key that is derived from the
/// cluster's own secret, which libsodium drew from the system's generator. Servers and coordinators
/// have that secret, so no other one must be sent to them, and a restarted coordinator makes the
/// same tokens.
/// Thread    any
class TokenKey {
 public:
  /// cluster_secret  Security::cluster_secret; not empty
  explicit TokenKey(const std::string& cluster_secret);

  [[nodiscard]] DataToken make(const TokenScope& scope) const;
  /// The scope that a request's frame proves; nullopt if the frame or its secret is invalid.
  [[nodiscard]] std::optional<TokenScope> check(std::span<const std::byte> request) const;

 private:
  using Secret = std::array<std::byte, 32>;
  [[nodiscard]] Secret secret_of(std::string_view purpose, std::span<const std::byte> scope) const;
  std::string key_;
};

}  // namespace taut
