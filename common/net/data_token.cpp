#include "common/net/data_token.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <zmq.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/check.hpp"
#include "common/files/sha256.hpp"

// Numbers in a request's frame are little-endian, as in memory.
static_assert(std::endian::native == std::endian::little);

namespace taut {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kScopeBytes = DataToken::kRequestBytes - kSecretBytes;
static_assert(kScopeBytes == 1 + kKeyBytes + 8 + 8 + 4 + 8);

template <class Number>
void put(std::byte*& at, Number number) {
  std::memcpy(at, &number, sizeof number);
  at += sizeof number;
}

template <class Number>
Number get(const std::byte*& at) {
  Number number{};
  std::memcpy(&number, at, sizeof number);
  at += sizeof number;
  return number;
}

std::array<std::byte, kScopeBytes> bytes_of(const TokenScope& scope) {
  std::array<std::byte, kScopeBytes> bytes{};
  std::byte* at = bytes.data();
  put(at, static_cast<std::uint8_t>(scope.use));
  std::array<std::uint8_t, kKeyBytes> key{};
  TAUT_CHECK(zmq_z85_decode(key.data(), scope.public_key.c_str()) != nullptr,
             "the holder of a secret has a key");
  put(at, key);
  put(at, scope.job.value());
  put(at, scope.submission);
  put(at, scope.worker.value());
  put(at, scope.incarnation.value());
  return bytes;
}

/// REQUIRES: kScopeBytes bytes.
TokenScope scope_of(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  TokenScope scope;
  scope.use = static_cast<TokenUse>(get<std::uint8_t>(at));
  const auto key = get<std::array<std::uint8_t, kKeyBytes>>(at);
  std::array<char, 41> text{};
  zmq_z85_encode(text.data(), key.data(), key.size());
  scope.public_key = text.data();
  scope.job = JobId(get<std::uint64_t>(at));
  scope.submission = get<std::uint64_t>(at);
  scope.worker = WorkerId(get<std::uint32_t>(at));
  scope.incarnation = Incarnation(get<std::uint64_t>(at));
  return scope;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::optional<DataToken> DataToken::from(std::string_view request, std::string_view answer) {
  if (request.size() != kRequestBytes || answer.size() != kAnswerBytes) return std::nullopt;
  return DataToken(Frame::copy_of(request), Frame::copy_of(answer));
}

bool same_secret(const Frame& a, const Frame& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.bytes().data(), b.bytes().data(), a.size()) == 0;
}

TokenKey::TokenKey(const std::string& cluster_secret)
    : key_(hmac_sha256(cluster_secret, "tautline data plane")) {
  TAUT_CHECK(!cluster_secret.empty(), "a cluster's secret");
}

TokenKey::Secret TokenKey::secret_of(std::string_view purpose,
                                     std::span<const std::byte> scope) const {
  std::array<unsigned char, 16 + kScopeBytes> text{};
  TAUT_CHECK(purpose.size() <= 16, "a purpose is a word");
  std::memcpy(text.data(), purpose.data(), purpose.size());
  std::memcpy(text.data() + 16, scope.data(), scope.size());
  Secret secret{};
  unsigned int size = 0;
  TAUT_CHECK(HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), text.data(),
                  text.size(), reinterpret_cast<unsigned char*>(secret.data()), &size) != nullptr &&
                 size == secret.size(),
             "OpenSSL offers no HMAC");
  return secret;
}

DataToken TokenKey::make(const TokenScope& scope) const {
  const auto bytes = bytes_of(scope);
  const Secret request = secret_of("request", bytes);
  const Secret answer = secret_of("answer", bytes);
  std::string frame(text_of(bytes));
  frame += text_of(request);
  return *DataToken::from(frame, text_of(answer));
}

std::optional<TokenScope> TokenKey::check(std::span<const std::byte> request) const {
  if (request.size() != DataToken::kRequestBytes) return std::nullopt;
  const auto scope = request.first(kScopeBytes);
  const Secret right = secret_of("request", scope);
  if (CRYPTO_memcmp(right.data(), request.data() + kScopeBytes, right.size()) != 0) {
    return std::nullopt;
  }
  return scope_of(scope);
}

}  // namespace taut
