#include "common/files/sha256.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <utility>
#include <vector>

#include "common/check.hpp"

namespace taut {
namespace {

std::string in_hex(std::span<const unsigned char> bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kHex[byte >> 4U];
    text += kHex[byte & 15U];
  }
  return text;
}

}  // namespace

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
  return in_hex(std::span(digest).first(size));
}

std::string hmac_sha256(const std::string& key, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  TAUT_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(),
                  digest.data(), &size) != nullptr,
             "OpenSSL offers no HMAC");
  return in_hex(std::span(digest).first(size));
}

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> drawn(bytes);
  TAUT_CHECK(RAND_bytes(drawn.data(), static_cast<int>(bytes)) == 1, "OpenSSL draws nothing");
  return in_hex(drawn);
}

}  // namespace taut
