#include "common/files/block_tag.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "common/check.hpp"

namespace taut {
namespace {

constexpr std::size_t kKeyBytes = 16;
constexpr std::size_t kNonceBytes = 12;

using Key = std::array<unsigned char, kKeyBytes>;

const Key& key_of_process() {
  static const Key key = [] {
    Key drawn{};
    TAUT_CHECK(RAND_bytes(drawn.data(), static_cast<int>(drawn.size())) == 1,
               "OpenSSL draws nothing");
    return drawn;
  }();
  return key;
}

}  // namespace

BlockTag block_tag(std::uint64_t number, std::span<const std::byte> bytes) {
  TAUT_CHECK(bytes.size() <= std::numeric_limits<int>::max(), "a block that OpenSSL takes at once");
  std::array<unsigned char, kNonceBytes> nonce{};
  for (std::size_t i = 0; i < sizeof number; ++i) {
    nonce[i] = static_cast<unsigned char>(number >> (8 * i));
  }
  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context(EVP_CIPHER_CTX_new(),
                                                                           EVP_CIPHER_CTX_free);
  BlockTag tag;
  int count = 0;
  unsigned char none = 0;
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  // All bytes are additional authenticated data; the message itself is empty.
  TAUT_CHECK(context &&
                 EVP_EncryptInit_ex(context.get(), EVP_aes_128_gcm(), nullptr,
                                    key_of_process().data(), nonce.data()) == 1 &&
                 EVP_EncryptUpdate(context.get(), nullptr, &count, data,
                                   static_cast<int>(bytes.size())) == 1 &&
                 EVP_EncryptFinal_ex(context.get(), &none, &count) == 1 &&
                 EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG,
                                     static_cast<int>(tag.size()), tag.data()) == 1,
             "OpenSSL offers no AES-GCM");
  return tag;
}

}  // namespace taut
