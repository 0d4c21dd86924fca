#include "common/files/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <utility>

#include "common/check.hpp"

namespace taut {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    TAUT_CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1,
               "OpenSSL offers no SHA-256");
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  TAUT_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "digest update");
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  TAUT_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1, "digest end");
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kHex[digest[i] >> 4U];
    text += kHex[digest[i] & 15U];
  }
  return text;
}

}  // namespace taut
