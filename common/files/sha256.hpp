#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace taut {

/// SHA-256 (FIPS 180-4) over bytes fed in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// 64 lowercase hex digits. The object must not be used afterwards.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// HMAC-SHA-256 (RFC 2104) of a text: 64 lowercase hex digits.
[[nodiscard]] std::string hmac_sha256(const std::string& key, const std::string& text);

/// `bytes` random bytes that cannot be guessed, in hex.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace taut
