#include "common/net/security.hpp"

#include <zmq.h>

#include <array>
#include <stdexcept>

namespace taut {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kKeyCharacters = 40;

}  // namespace

KeyPair make_key_pair() {
  std::array<char, kKeyCharacters + 1> public_key{};
  std::array<char, kKeyCharacters + 1> secret_key{};
  if (zmq_has("curve") != 1 || zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    throw std::runtime_error(
        "this machine's libzmq was built without CURVE, so no keys can be made: install one built "
        "with libsodium, as distributions' packages are, or set insecure: true");
  }
  return {public_key.data(), secret_key.data()};
}

bool is_key(std::string_view text) {
  if (text.size() != kKeyCharacters) return false;
  std::array<std::uint8_t, kKeyBytes> bytes{};
  return zmq_z85_decode(bytes.data(), std::string(text).c_str()) != nullptr;
}

}  // namespace taut
