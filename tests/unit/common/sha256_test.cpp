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
