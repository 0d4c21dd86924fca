#include "common/files/sha256.hpp"

#include "tests/support/catch.hpp"

// FIPS 180-4's example for "abc".
TEST_CASE("SHA-256 of abc is the published digest", "[sha256]") {
  taut::Sha256 digest;
  const std::string a = "a";
  const std::string bc = "bc";
  digest.update(std::as_bytes(std::span(a)));
  digest.update(std::as_bytes(std::span(bc)));
  CHECK(digest.finish() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// RFC 4231, test case 2.
TEST_CASE("HMAC-SHA-256 of the published example is the published code", "[sha256]") {
  CHECK(taut::hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("random bytes have their length and differ", "[sha256]") {
  CHECK(taut::random_hex(16).size() == 32);
  CHECK(taut::random_hex(16) != taut::random_hex(16));
}
